package code

// The codes of differences between what is wanted and what is there. The executor reports those about an agent that it
// looks at; garrison check adds the others.
const (
	LinkMissing          = "LINK_MISSING"
	LinkElsewhere        = "LINK_ELSEWHERE"
	LinkBlocked          = "LINK_BLOCKED"
	ImageLost            = "IMAGE_LOST"
	ConfigurationChanged = "CONFIGURATION_CHANGED"
	NotRunning           = "NOT_RUNNING"
	CrashLoop            = "CRASH_LOOP"
	RunsOtherImage       = "RUNS_OTHER_IMAGE"
	ProbeFails           = "PROBE_FAILS"
	RunsBeside           = "RUNS_BESIDE"
	FilesStay            = "FILES_STAY"
	Unhealthy            = "UNHEALTHY"
	NeverInstalled       = "NEVER_INSTALLED"
	AgentLost            = "AGENT_LOST"
	WrongImage           = "WRONG_IMAGE"
	OtherDigest          = "OTHER_DIGEST"
	ConfigurationDiffers = "CONFIGURATION_DIFFERS"
	MetadataChanged      = "METADATA_CHANGED"
	ChangeWaits          = "CHANGE_WAITS"
	ChangeRuns           = "CHANGE_RUNS"
	ChangeFailed         = "CHANGE_FAILED"
	ChangeExpired        = "CHANGE_EXPIRED"
	ChangeCancelled      = "CHANGE_CANCELLED"
	ImageGone            = "IMAGE_GONE"
	ImageDisabled        = "IMAGE_DISABLED"
	WrongVersion         = "WRONG_VERSION"
	StaleReport          = "STALE_REPORT"
	ServerOffline        = "SERVER_OFFLINE"
	NeverConnected       = "NEVER_CONNECTED"
	ServerInvited        = "SERVER_INVITED"
	ServerLeaving        = "SERVER_LEAVING"
	ExecutorSuspended    = "EXECUTOR_SUSPENDED"
	WantedOnDead         = "WANTED_ON_DEAD_SERVER"
	MoreFound            = "MORE_FOUND"
	ProcessStopped       = "PROCESS_STOPPED"
	DirectoryMissing     = "DIRECTORY_MISSING"
	ServiceDisabled      = "SERVICE_DISABLED"
	RepairDidNotHold     = "REPAIR_DID_NOT_HOLD"
)

// notRetried are the causes that asking for the same again does not cure: a person must change something first.
var notRetried = map[string]bool{
	ExecutorTooOld: true, WrongPlatform: true, UnsupportedKind: true, NoSpace: true, Conflicts: true,
	RootNoexec: true, RootReadOnly: true,
	MissingDependency: true, RequirementUnmet: true,
	UnsignedImage: true, UnknownSigner: true, BadSignature: true, ImageKeysUnreadable: true,
	InvalidImage: true, BadTemplate: true, UnknownVariable: true, BadVariable: true, SecretMissing: true,
	CannotConfine: true, BadSocket: true, ServerFull: true, RunsBeside: true, FilesStay: true, Mounted: true,
	OtherSelf: true, ServiceDisabled: true, LinkBlocked: true, RepairDidNotHold: true, CrashLoop: true,
}

// RetryHelps reports whether asking for the same again may cure a difference with this cause.
func RetryHelps(code string) bool { return !notRetried[code] }

// healed are the causes that executors cure by themselves under the drift policy heal. An agent that fails by itself
// does not drift.
var healed = map[string]bool{
	LinkMissing: true, LinkElsewhere: true, ImageLost: true, Damaged: true, ConfigurationChanged: true,
	ProcessStopped: true, DirectoryMissing: true, AgentLost: true, WrongImage: true, OtherDigest: true,
	ConfigurationDiffers: true,
}

// Healed reports whether a difference with this cause is drift, which executors heal.
func Healed(code string) bool { return healed[code] }

// Restarted reports whether what comes next, for a difference with this cause, is a start of the agent's process.
func Restarted(code string) bool { return code == CrashLoop || code == NotRunning }

// LacksVariable reports whether a difference with this cause ends when the server gets a value that its reason names.
func LacksVariable(code string) bool { return code == UnknownVariable }

const explainAgent = "garrison explain SERVER AGENT; garrison check --fix"

var differences = []Entry{
	{
		LinkMissing, by(executor),
		"The link by which the agent's version is current is gone from the server's disk.", explainAgent,
	},
	{
		LinkElsewhere, by(executor),
		"The link by which the agent's version is current leads to something else than the installed image.",
		explainAgent,
	},
	{
		LinkBlocked, by(executor),
		"A directory with files is where the link belongs by which the agent's version is current. Garrison deletes " +
			"no files that it did not write.",
		"move that directory away on the server, then garrison up AGENT --on SERVER",
	},
	{
		ImageLost, by(executor),
		"The directory of the installed image, or the mark that seals it, is gone or unreadable.", explainAgent,
	},
	{
		ConfigurationChanged, by(executor),
		"The rendered configuration of the agent was changed or deleted on the server's disk.", explainAgent,
	},
	{
		RepairDidNotHold, by(executor),
		"The files or the configuration of the running version were changed again after each of two repairs. The " +
			"executor leaves them as they are and the agent running, until a task changes it: something there " +
			"changes them on purpose, often the agent itself. The reason names what differs.",
		"have the agent keep what it writes in ${state}, then garrison up AGENT --on SERVER",
	},
	{
		NotRunning, by(executor),
		"The agent is a daemon and has no process.", explainAgent,
	},
	{
		ProcessStopped, by(executor),
		"The agent's process exists and was stopped by a signal, so it does nothing.", explainAgent,
	},
	{
		DirectoryMissing, by(executor),
		"The directory in which the agent keeps its state, or the one of its running process, is gone from the " +
			"server's disk.",
		explainAgent,
	},
	{
		ServiceDisabled, by(executor),
		"The agent is an adopted service, and it was disabled or masked on the server since. The executor neither " +
			"enables it nor, once it was stopped, starts it: that was a decision of an operator of the server.",
		"systemctl enable --now SERVICE on the server; garrison instance release SERVER AGENT lets the service go; " +
			"garrison remove AGENT --on SERVER",
	},
	{
		CrashLoop, by(executor),
		"The agent's process keeps ending shortly after each start.",
		"garrison logs SERVER AGENT; then another version or configuration: garrison up AGENT@VERSION --on SERVER",
	},
	{
		RunsOtherImage, by(executor),
		"The agent's process runs from another image than the one that is current.", explainAgent,
	},
	{
		ProbeFails, by(executor),
		"The agent's process runs, and its health check fails.",
		"garrison explain SERVER AGENT; the agent's output on the server",
	},
	{
		RunsBeside, by(executor),
		"The agent is as it is wanted, and the server has the same agent a second time, which its executor does not " +
			"manage.",
		"garrison explain SERVER; end the other one on the server",
	},
	{
		FilesStay, by(executor),
		"The agent was removed, and some of its files cannot be deleted yet. The executor keeps trying.",
		"garrison explain SERVER AGENT",
	},
	{
		Unhealthy, by(registry),
		"The server reports the agent as not healthy, and does not say which kind of difference it is.", explainAgent,
	},
	{
		NeverInstalled, by(registry),
		"The agent is wanted, no task is under way, and the server never listed it.",
		"garrison up AGENT@VERSION --on SERVER",
	},
	{
		AgentLost, by(registry),
		"The agent was installed, and the server no longer lists it.", "garrison up AGENT@VERSION --on SERVER",
	},
	{
		WrongImage, by(registry),
		"The server lists another image of the agent than the one that is wanted.",
		"garrison up AGENT@VERSION --on SERVER",
	},
	{
		OtherDigest, by(registry),
		"The server lists the wanted image with another content.", "garrison up AGENT@VERSION --on SERVER",
	},
	{
		ConfigurationDiffers, by(registry),
		"The server lists the agent with another configuration than the one that is wanted.",
		"garrison up AGENT@VERSION --on SERVER",
	},
	{
		MetadataChanged, by(registry),
		"The agent runs as it was last wanted, and its metadata has changed since: that of its application, agent, " +
			"environment or default. No change brings it by itself.",
		"garrison configure AGENT --on SERVER",
	},
	{
		ChangeWaits, by(registry),
		"A task that brings about what is wanted waits for its turn or its server.", "garrison explain SERVER AGENT",
	},
	{
		ChangeRuns, by(registry),
		"A task that brings about what is wanted is under way.", "garrison explain SERVER AGENT",
	},
	{
		ChangeFailed, by(registry),
		"The last task failed or was rolled back, so what is wanted is not there.",
		"garrison explain SERVER AGENT, then garrison undo INTENT, or another version",
	},
	{
		ChangeExpired, by(registry),
		"The deadline of the last task passed before it was done.", "garrison up AGENT@VERSION --on SERVER",
	},
	{
		ChangeCancelled, by(registry),
		"The last task was cancelled before it began, so what is wanted is not there.",
		"garrison up AGENT@VERSION --on SERVER, or garrison intent undo",
	},
	{
		ImageGone, by(registry),
		"The catalog has no record of the image that is wanted, so a damaged copy of it could not be replaced.",
		"garrison image import FILE, or garrison up AGENT --on SERVER",
	},
	{
		ImageDisabled, by(registry),
		"The image that is wanted is not active in the catalog: it stays where it is, and is not newly installed.",
		"garrison up AGENT --on SERVER, or garrison image activate IMAGE",
	},
	{
		WrongVersion, by(registry),
		"The external instance has another version than its agent says is wanted. Garrison does not change it: the " +
			"system that runs it does.",
		"change it there; garrison external want AGENT VERSION, when the other version is right",
	},
	{
		StaleReport, by(registry),
		"The server is online, and has not confirmed what it reported for more than twelve beats: its reports are " +
			"not acknowledged. Of an external instance: no report of its reporter listed it in time.",
		"garrison server refresh --on SERVER; executor status there; garrison external show AGENT NAME",
	},
	{
		ServerOffline, by(registry),
		"The server does not beat. Nothing is known of it since, and its tasks wait.",
		"the machine, its network and its executor; when it is lost: garrison server decommission SERVER --lost",
	},
	{
		NeverConnected, by(registry),
		"The server enrolled, and its executor has never connected.", "executor run on the server",
	},
	{
		ServerInvited, by(registry),
		"The server was invited and has not joined yet.",
		"executor join on the server; or garrison server forget SERVER",
	},
	{
		ServerLeaving, by(registry),
		"The server is being decommissioned, and its end still waits for something.", "garrison explain SERVER",
	},
	{
		ExecutorSuspended, by(registry),
		"The server's executor keeps its agents running, and does not follow its document.",
		"garrison explain SERVER; executor status there",
	},
	{
		WantedOnDead, by(registry),
		"The agent is wanted on a server that is dead.", "garrison server forget SERVER",
	},
	{
		MoreFound, by(registry),
		"The server has more unmanaged agents than it lists.", "garrison explain SERVER; executor status there",
	},
}
