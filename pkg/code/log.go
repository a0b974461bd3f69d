package code

// The codes of reading the output of agents.
const (
	ExecutorSilent = "EXECUTOR_SILENT"
	NotInstalled   = "NOT_INSTALLED"
	NoOutput       = "NO_OUTPUT"
	TooManyReaders = "TOO_MANY_READERS"
	LogNotOpen     = "LOG_NOT_OPEN"
)

var logReadings = []Entry{
	{
		ExecutorSilent, by(registry),
		"The server is online, and its executor does not answer a request for output: it was started a moment ago, " +
			"or it is of a version that cannot.",
		"the same command again; garrison versions",
	},
	{
		NotInstalled, by(registry),
		"The agent is not installed on the server.",
		"garrison instance list --on SERVER",
	},
	{
		NoOutput, by(registry, executor),
		"The agent has written nothing since it was installed, it is of a kind that runs no process, or its process " +
			"was adopted and writes elsewhere.",
		"garrison explain SERVER AGENT",
	},
	{
		TooManyReaders, by(registry, executor),
		"As many people read output of agents on the server as it allows at a time.",
		"the same command again, after another one ended",
	},
	{
		LogNotOpen, by(executor),
		"The session is unknown to the server: it ended a minute after the last request, made room for another one, " +
			"or the executor was started again.",
		"garrison logs SERVER AGENT",
	},
}
