package code

// The codes of tasks, and of the executor while it changes an agent.
const (
	UnknownTask         = "UNKNOWN_TASK"
	AmbiguousTask       = "AMBIGUOUS_TASK"
	NoTaskNamed         = "NO_TASK_NAMED"
	NoDocument          = "NO_DOCUMENT"
	NotCounted          = "NOT_COUNTED"
	NotQueued           = "NOT_QUEUED"
	ServerDying         = "SERVER_DYING"
	ExecutorTooOld      = "EXECUTOR_TOO_OLD"
	Conflicts           = "CONFLICTS"
	NoSpace             = "NO_SPACE"
	RootNoexec          = "ROOT_NOEXEC"
	RootReadOnly        = "ROOT_READ_ONLY"
	ImageKeysUnreadable = "IMAGE_KEYS_UNREADABLE"
	InvalidImage        = "INVALID_IMAGE"
	SocketTaken         = "SOCKET_TAKEN"
	BadSocket           = "BAD_SOCKET"
	CannotConfine       = "CANNOT_CONFINE"
	BadTemplate         = "BAD_TEMPLATE"
	UnknownVariable     = "UNKNOWN_VARIABLE"
	BadVariable         = "BAD_VARIABLE"
	BadArchive          = "BAD_ARCHIVE"
	UnsafePath          = "UNSAFE_PATH"
	LinkEscapes         = "LINK_ESCAPES"
	DuplicateName       = "DUPLICATE_NAME"
	SpecialMode         = "SPECIAL_MODE"
	ReservedName        = "RESERVED_NAME"
	TooManyEntries      = "TOO_MANY_ENTRIES"
	SetupFailed         = "SETUP_FAILED"
	NotStarted          = "NOT_STARTED"
	NotReady            = "NOT_READY"
	Exited              = "EXITED"
	Unstable            = "UNSTABLE"
	BadAsBefore         = "BAD_AS_BEFORE"
	TimedOut            = "TIMED_OUT"
	Damaged             = "DAMAGED"
	Mounted             = "MOUNTED"
	FilesLeft           = "FILES_LEFT"
	ServerDead          = "SERVER_DEAD"
	OtherSelf           = "OTHER_SELF"
	NeedsBus            = "NEEDS_BUS"
	RehearsalFailed     = "REHEARSAL_FAILED"
	Interrupted         = "INTERRUPTED"
	CrashedExecutor     = "CRASHED_EXECUTOR"
	ChangeOpen          = "CHANGE_OPEN"
	CriticalSection     = "CRITICAL_SECTION"
	TooManySections     = "TOO_MANY_SECTIONS"
	GivenUp             = "GIVEN_UP"
	NotWanted           = "NOT_WANTED"
	CutOff              = "CUT_OFF"
	BusLost             = "BUS_LOST"
)

var changes = []Entry{
	{
		UnknownTask, by(dispatcher),
		"No task has that id or unique prefix.",
		"garrison task list",
	},
	{
		AmbiguousTask, by(dispatcher),
		"The prefix matches several tasks. Use a longer one.",
		"garrison task list -o wide",
	},
	{
		NoTaskNamed, by(dispatcher),
		"The request names no task.",
		"garrison task list",
	},
	{
		NoDocument, by(dispatcher),
		"The dispatcher has no document for the server: it has not enrolled yet.",
		"garrison server show SERVER",
	},
	{
		NotCounted, by(dispatcher),
		"The dispatcher keeps no progress for this intent: it changes nothing, or it ended long ago.",
		"garrison intent show INTENT; garrison events --noun task",
	},
	{
		NotQueued, by(dispatcher),
		"Only a task that is not assigned yet can be cancelled.",
		"garrison task wait TASK; afterwards garrison up AGENT@VERSION --on SERVER reverts it",
	},
	{
		ServerDying, by(dispatcher),
		"A removal from a dying server cannot be cancelled: the server would never become dead.",
		"garrison explain SERVER; when the machine is lost: garrison server decommission SERVER --lost",
	},
	{
		ExecutorTooOld, by(registry, executor),
		"The server's executor is too old for this image or document. Nothing was changed.",
		"garrison server list -o wide; a newer executor, by an image of kind self",
	},
	{
		Conflicts, by(registry, executor),
		"The image conflicts with another agent on the server. Remove that agent first. Nothing was changed.",
		"garrison remove OTHER --on SERVER",
	},
	{
		NoSpace, by(registry, executor),
		"The server's disk has too little free space for the image.",
		"free space on the server, or executor run --keep-versions 0 there; then garrison up AGENT --on SERVER",
	},
	{
		RootNoexec, by(executor),
		"The executor's root lies on a file system that is mounted noexec, so no agent can be started there. Nothing " +
			"was changed.",
		"on the server: mount -o remount,exec MOUNT, or executor run --root elsewhere; then garrison up AGENT " +
			"--on SERVER",
	},
	{
		RootReadOnly, by(executor),
		"The executor's root lies on a file system that is read-only, by its mount or after an error of the disk, so " +
			"nothing can be changed there.",
		"on the server: dmesg, then mount -o remount,rw MOUNT; then garrison up AGENT --on SERVER",
	},
	{
		ImageKeysUnreadable, by(executor),
		"The file executor/image-keys of the server cannot be read, or has a line that is not a key, so the " +
			"server takes no image. Running agents keep running.",
		"on the server, one key per line in executor/image-keys below its root; then garrison up AGENT --on SERVER",
	},
	{
		InvalidImage, by(executor),
		"The executor cannot apply the image's manifest. Nothing was changed.",
		"garrison image show IMAGE; garrison image build DIR with a current garrison",
	},
	{
		SocketTaken, by(executor),
		"Another process listens on an address that the image declares, or that its health check asks. Nothing was " +
			"changed.",
		"on the server: ss -ltnp; stop that process, or change the label or the image",
	},
	{
		BadSocket, by(executor),
		"The image declares a socket whose address cannot be bound. Nothing was changed.",
		"run.sockets in garrison.yaml; garrison image build --help",
	},
	{
		CannotConfine, by(executor),
		"The server cannot enforce the limits or the sandbox of the image; the message names them. Nothing was " +
			"changed.",
		"executor run as root under systemd there, or an image without those keys of run.limits and run.sandbox",
	},
	{
		BadTemplate, by(executor, cli),
		"A template of the image cannot be rendered: it is wrong, or missing in the directory, or uses metadata " +
			"or a label that the server lacks. Nothing was changed.",
		"garrison instance show SERVER AGENT, then garrison configure AGENT --set NAME=VALUE --on SERVER, or " +
			"garrison server label SERVER LABEL=VALUE",
	},
	{
		UnknownVariable, by(executor, cli),
		"The image uses a ${variable} that the server does not have, such as a label.",
		"garrison server label SERVER LABEL=VALUE, then garrison up AGENT@VERSION --on SERVER; garrison image build " +
			"--help lists the variables",
	},
	{
		BadVariable, by(executor),
		"A label or a value of the metadata that is part of a probe's address could turn the probe to another host. " +
			"In the host and the port it may have letters, digits, dots, dashes and underscores only.",
		"correct the value: garrison server label SERVER LABEL=VALUE, or garrison configure; then repeat the change",
	},
	{
		BadArchive, by(executor),
		"The content of the image cannot be unpacked. Nothing was changed.",
		"garrison image verify FILE, then garrison image build DIR",
	},
	{
		UnsafePath, by(executor),
		"A path in the image leads out of it, or is not a valid path. Nothing was changed.",
		"garrison image build DIR",
	},
	{
		LinkEscapes, by(cli, executor),
		"A link in the image leads out of it, nowhere or in a circle. Nothing was changed.",
		"relative links to files and directories of the image, then garrison image build DIR",
	},
	{
		DuplicateName, by(executor),
		"Two files of the image have the same name. Nothing was changed.",
		"garrison image build DIR",
	},
	{
		SpecialMode, by(executor),
		"A file in the image is setuid, setgid or sticky. Nothing was changed.",
		"chmod u-s,g-s,-t FILE, then garrison image build DIR",
	},
	{
		ReservedName, by(cli, executor),
		"A file in the image has a name that Garrison reserves. Nothing was changed.",
		"another name, then garrison image build DIR",
	},
	{
		TooManyEntries, by(executor),
		"The image has more files than an image may have. Nothing was changed.",
		"fewer files, such as one archive of them, then garrison image build DIR",
	},
	{
		SetupFailed, by(executor),
		"The set-up of a oneshot agent ended with an error.",
		"garrison task show TASK",
	},
	{
		NotStarted, by(executor),
		"The agent's program could not be started.",
		"garrison task show TASK",
	},
	{
		NotReady, by(executor),
		"The new version was not ready in time, or another process answered its health check. The previous version, " +
			"if there was one, runs again.",
		"garrison task show TASK",
	},
	{
		Exited, by(executor),
		"The agent exited before its health check was complete. The task shows its last output.",
		"garrison task show TASK",
	},
	{
		Unstable, by(executor),
		"The agent became unhealthy while it was observed. The task shows its last output.",
		"garrison task show TASK",
	},
	{
		BadAsBefore, by(executor),
		"The new version failed in the same way as the old one, so the cause is more likely something that both " +
			"depend on. The old version runs as before.",
		"garrison explain SERVER AGENT",
	},
	{
		TimedOut, by(dispatcher, executor, cli),
		"A step exceeded its time limit.",
		"garrison task show TASK, then garrison up AGENT --on SERVER",
	},
	{
		Damaged, by(executor),
		"The files of the running version differ from its image: they were changed or deleted.",
		"garrison explain SERVER AGENT, then garrison up AGENT --on SERVER",
	},
	{
		Mounted, by(executor),
		"A file system is mounted in the agent's directory, and a removal deletes nothing there. Unmount it and " +
			"remove the agent again. The agent keeps running.",
		"umount DIR there, then garrison remove AGENT --on SERVER",
	},
	{
		FilesLeft, by(executor),
		"The agent is removed and does not run, but some of its files cannot be deleted; the reason names one. " +
			"The server retries by itself; garrison remove reports when nothing is left.",
		"garrison task show TASK, then garrison remove AGENT --on SERVER",
	},
	{
		ServerDead, by(executor),
		"The server is dead, so its changes were abandoned; its agents are removed.",
		"garrison server show SERVER",
	},
	{
		OtherSelf, by(executor),
		"Another agent already provides the server's executor; a server has one such agent.",
		"garrison instance list --server SERVER",
	},
	{
		NeedsBus, by(executor),
		"The bus was unreachable while a new executor had to prove that it reaches it. The old executor keeps " +
			"running.",
		"garrison up AGENT --on SERVER, once garrison server list says online",
	},
	{
		RehearsalFailed, by(executor),
		"The new version checked itself before any change, and failed. The reason has its last output.",
		"garrison task show TASK",
	},
	{
		Interrupted, by(executor),
		"The executor or its machine ended during the trial of a new executor. The old executor runs; the trial " +
			"is not repeated automatically.",
		"garrison up AGENT --on SERVER",
	},
	{
		CrashedExecutor, by(executor),
		"The executor or its machine ended again and again during the change: twice while the new version could run, " +
			"or ten times otherwise. The server went back to the version before, and brings this one again only " +
			"for a new task.",
		"garrison task show TASK has its last output; the system log of the server; then garrison up AGENT@VERSION " +
			"--on SERVER",
	},
	{
		ChangeOpen, by(executor),
		"A change of an agent is not finished, and the executor must finish it before its memory is changed by hand, " +
			"or before a critical section begins. Nothing was changed.",
		"start the executor, wait until executor status shows no step, and stop it; then repeat the command. Before " +
			"a critical section, the executor need not be stopped",
	},
	{
		CriticalSection, by(executor),
		"A program on the server is in a critical section. Changes fetch and stage their image, and then wait for " +
			"its end, at most for as long as the environment allows; after that they go on.",
		"executor busy list on the server; executor busy end NAME ends a section; garrison env update ENVIRONMENT " +
			"--busy-limit DURATION",
	},
	{
		TooManySections, by(executor),
		"The server has as many critical sections as it may have at once.",
		"executor busy list; executor busy end NAME",
	},
	{
		GivenUp, by(dispatcher, executor),
		"The change waited on its server for the end of a critical section when it was no longer wanted. The " +
			"server gave it up before it touched anything, and runs what it ran.",
		"garrison task show TASK names what is wanted instead",
	},
	{
		NotWanted, by(executor),
		"The executor crashed during the change, and found when it came back that the change is no longer wanted. " +
			"It went back to the version before instead of going on.",
		"garrison explain SERVER AGENT",
	},
	{
		CutOff, by(executor),
		"The bus answered before the switch, did not with the new version, and did again after the server had gone " +
			"back to the version before: the new version cut the server off.",
		"garrison task show TASK; run.ready.bus in garrison.yaml for a version that needs longer than 30 s",
	},
	{
		BusLost, by(executor),
		"The bus answered before the switch, did not with the new version, and did not for as long after the " +
			"server had gone back to the version before. An outage of the bus is likelier than a fault of the version.",
		"garrison health; then garrison up AGENT@VERSION --on SERVER",
	},
}
