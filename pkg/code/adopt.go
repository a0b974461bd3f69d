package code

// The codes of scans and adoptions.
const (
	UnknownDetector    = "UNKNOWN_DETECTOR"
	NotScanned         = "NOT_SCANNED"
	UnknownCandidate   = "UNKNOWN_CANDIDATE"
	AmbiguousCandidate = "AMBIGUOUS_CANDIDATE"
	NotAdoptable       = "NOT_ADOPTABLE"
	CandidateGone      = "CANDIDATE_GONE"
	CandidateManaged   = "CANDIDATE_MANAGED"
	NotAdopted         = "NOT_ADOPTED"
	NotRestartable     = "NOT_RESTARTABLE"
)

var adoptions = []Entry{
	{
		UnknownDetector, by(registry, executor),
		"The server has no detector of that name, or the name is not valid.",
		"garrison server scan SERVER, without --detector",
	},
	{
		NotScanned, by(registry),
		"The server never reported its candidates for adoption, or the bus lost that: reports are not synced to the " +
			"disk.",
		"garrison server scan SERVER",
	},
	{
		UnknownCandidate, by(cli),
		"No process or service that runs has that id or name in the server's last scan.",
		"garrison server candidates SERVER --listening",
	},
	{
		AmbiguousCandidate, by(cli),
		"Several processes or services of the server's last scan have that name. Use an id.",
		"garrison server candidates SERVER --listening",
	},
	{
		NotAdoptable, by(registry, executor),
		"Only a process or a systemd service that runs can be adopted, as an agent of the kind daemon whose image " +
			"names no sockets: Garrison opens those itself, and a process that runs cannot take them. A process of " +
			"a service is adopted with its service, where the executor runs agents by systemd. A service that a " +
			"socket, a timer or another unit triggers is not adopted: that would start it again.",
		"garrison server candidates SERVER --listening; garrison install AGENT --on SERVER",
	},
	{
		CandidateGone, by(executor),
		"The process or the unit of that id no longer runs. Another process with the same id is another " +
			"candidate.",
		"garrison server scan SERVER",
	},
	{
		CandidateManaged, by(executor),
		"The process is Garrison's own, or another agent was adopted with it.",
		"garrison instance list --server SERVER",
	},
	{
		NotAdopted, by(registry, executor),
		"Only an instance whose adopted process still runs, or that is an adopted service, can be released. After an " +
			"upgrade, a configuration or a restart from its image the process is Garrison's own.",
		"garrison remove AGENT --on SERVER",
	},
	{
		NotRestartable, by(executor),
		"The adopted process ended, and its program is not that of the agent's image: Garrison cannot start it again " +
			"and starts no other version by itself.",
		"garrison up AGENT@VERSION --on SERVER",
	},
}
