package code

// The codes of dead servers, of executors that remove themselves, and of unmanaged processes and files.
const (
	FoundLink          = "FOUND_LINK"
	FoundProcess       = "FOUND_PROCESS"
	FoundUnit          = "FOUND_UNIT"
	FoundInstance      = "FOUND_INSTANCE"
	InventoryUntrusted = "INVENTORY_UNTRUSTED"
	NotInInventory     = "NOT_IN_INVENTORY"
	NoInventory        = "NO_INVENTORY"
	NoTombstone        = "NO_TOMBSTONE"
	BadTombstone       = "BAD_TOMBSTONE"
	OtherTombstone     = "OTHER_TOMBSTONE"
	NoExecutor         = "NO_EXECUTOR"
	ExecutorRuns       = "EXECUTOR_RUNS"
	NotUninstalled     = "NOT_UNINSTALLED"
	AgentsLeft         = "AGENTS_LEFT"
	NotProven          = "NOT_PROVEN"
	Provisioned        = "PROVISIONED"
	OwnershipUnknown   = "OWNERSHIP_UNKNOWN"
	ReceiptWaits       = "RECEIPT_WAITS"
	AgentsStay         = "AGENTS_STAY"
	ProcessesStay      = "PROCESSES_STAY"
	SshFailed          = "SSH_FAILED"
	NoProgram          = "NO_PROGRAM"
	NotUploaded        = "NOT_UPLOADED"
	NotCleaned         = "NOT_CLEANED"
)

var removals = []Entry{
	{
		FoundLink, by(cli, registry),
		"The server has a link to an agent that its executor did not create. It is reported and never modified.",
		"garrison explain SERVER; rm the link there, or garrison install AGENT --on SERVER, which takes it over",
	},
	{
		FoundProcess, by(cli, registry),
		"The server runs processes from an agent's image that its executor does not manage, such as those of an " +
			"earlier version. They are reported and never modified.",
		"executor status there names one; end them",
	},
	{
		FoundUnit, by(cli, registry),
		"The server has a systemd service that is named like one of its executor's but is unknown to it: the " +
			"executor's journal was lost or reset. It is reported and never modified.",
		"garrison explain SERVER; systemctl stop the service there",
	},
	{
		FoundInstance, by(cli, registry),
		"The server's executor keeps an agent whose instance the registry does not know, for example after a " +
			"restore. It is reported and never modified.",
		"garrison install AGENT --on SERVER, and it is managed again",
	},
	{
		InventoryUntrusted, by(executor),
		"The executor lost its journal, or runs beside agents that it does not know. The reason names them. " +
			"Nothing counts as removed, and the executor stays, until everything on the server is explained.",
		"garrison install AGENT --on SERVER, which takes over an agent that runs there; or stop it there by hand",
	},
	{
		NotInInventory, by(executor),
		"The executor does not know this instance, but a link, a service or a process of the agent is on the " +
			"server. It is not removed.",
		"garrison check instances; stop what the reason names by hand, then try again",
	},
	{
		NoInventory, by(executor),
		"The executor's journal is missing, so the installed agents are unknown. Nothing was changed.",
		"stop the agents there and remove the root by hand, then garrison server forget SERVER",
	},
	{
		NoTombstone, by(executor),
		"A document declares the server dead without the tombstone that its registry signs. It is ignored, and " +
			"agents keep running.",
		"garrison server show SERVER; when it is to go: garrison server tombstone SERVER > FILE, then there executor " +
			"uninstall --tombstone FILE",
	},
	{
		BadTombstone, by(executor),
		"The tombstone is not valid, or not signed by the server's registry. It is ignored: nothing was changed, " +
			"and agents keep running.",
		"executor status there; garrison server tombstone SERVER",
	},
	{
		OtherTombstone, by(executor),
		"A document declares the server dead with the tombstone of another server. It is ignored, and agents keep" +
			" running.",
		"garrison server show SERVER; when it is to go: garrison server tombstone SERVER > FILE, then there executor " +
			"uninstall --tombstone FILE",
	},
	{
		NoExecutor, by(executor),
		"The root has neither an identity nor a journal: an earlier clean-up removed everything and its answer " +
			"may have been lost, or no server ever joined there. Both look the same, so it does not count as cleaned." +
			" Nothing was changed.",
		"the machine and the --root that it was joined with; when nothing of it runs there, garrison " +
			"server forget SERVER",
	},
	{
		ExecutorRuns, by(executor),
		"An executor runs in that root; it removes itself when it may. Stop it before executor uninstall or " +
			"garrison server clean.",
		"executor status there; systemctl stop garrison-executor there",
	},
	{
		NotUninstalled, by(executor),
		"The conditions for the executor's removal are not met; executor uninstall --dry-run lists them.",
		"executor uninstall --dry-run there",
	},
	{
		AgentsLeft, by(executor),
		"The server is dead, and its executor is still removing agents.",
		"garrison server show SERVER",
	},
	{
		NotProven, by(executor, cli),
		"The server is dead, but its executor has no tombstone that it can verify, so it stays. Remove it by hand.",
		"executor uninstall --dry-run there",
	},
	{
		Provisioned, by(executor),
		"The server is dead, and a provisioner created its machine, so the executor stays until the machine is " +
			"deleted.",
		"garrison server forget SERVER, once the machine is gone",
	},
	{
		OwnershipUnknown, by(executor),
		"The server is dead, but its executor does not know who created the machine, so it stays. Remove it by " +
			"hand.",
		"executor uninstall --dry-run there",
	},
	{
		ReceiptWaits, by(executor),
		"The server is dead. Its executor removes itself as soon as the bus has stored its last receipt.",
		"executor status there; garrison server show SERVER",
	},
	{
		AgentsStay, by(executor),
		"An agent of the dead server could not be removed, so the executor's files stay too. Agents removed " +
			"before stay removed.",
		"fix what the reason names there, then garrison server clean SERVER again",
	},
	{
		ProcessesStay, by(executor),
		"On the dead server's machine, processes run from an agent's image or directory that the executor's " +
			"journal does not know. Their files and the executor's identity stay, so that no file of a running " +
			"process is deleted.",
		"end the processes that the reason names there, or move them out of the directory, then garrison server " +
			"clean SERVER again",
	},
	{
		SshFailed, by(cli),
		"The dead server's machine cannot be reached over ssh; the reason has ssh's last output. Nothing was " +
			"started there.",
		"ssh USER@HOST, with the same --ssh-command",
	},
	{
		NoProgram, by(cli),
		"The dead server's machine has no executor program that can clean up with a tombstone. Nothing was " +
			"changed.",
		"garrison server clean SERVER --ssh USER@HOST --upload FILE, or --executor PROGRAM",
	},
	{
		NotUploaded, by(cli),
		"The upload of the executor program to the dead server's machine is incomplete; the program was not run.",
		"garrison server clean SERVER again; TMPDIR there, and its free space",
	},
	{
		NotCleaned, by(executor, cli),
		"The clean-up of the dead server's machine failed; the message says at which step. It can be repeated.",
		"garrison server clean SERVER again",
	},
}
