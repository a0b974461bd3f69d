package code

// The codes of blocks.
const (
	Blocked       = "BLOCKED"
	NotBlocked    = "NOT_BLOCKED"
	TooManyBlocks = "TOO_MANY_BLOCKS"
	BadBlock      = "BAD_BLOCK"
)

var blocks = []Entry{
	{
		Blocked, by(registry),
		"The image, on this platform, or the configuration of the agent is blocked: it failed on several servers, it " +
			"halted a rollout, or an operator blocked it. No intent brings it to a server on which it does not run " +
			"already; an undo may go back to it.",
		"garrison block list AGENT; garrison block remove BLOCK -m WHY, and then the same again",
	},
	{
		NotBlocked, by(registry),
		"No block has this id, or several ids start so.",
		"garrison block list",
	},
	{
		TooManyBlocks, by(registry),
		"There are as many blocks as the registry keeps.",
		"garrison block list; garrison block remove BLOCK -m WHY",
	},
	{
		BadBlock, by(registry),
		"The request does not name what to block, or not why.",
		"garrison block add AGENT@VERSION -m WHY",
	},
}

// OfBuild reports whether an agent that was observed with a code may be bad because of its image or configuration: it
// does not stay up, or fails its probe.
func OfBuild(observed string) bool {
	return observed == NotRunning || observed == CrashLoop || observed == ProbeFails
}

// OfServer reports whether a change that failed with a code failed for the sake of its server: the version before it
// failed in the same way, the disk is full, the executor ended in between, or the bus was away.
func OfServer(outcome string) bool {
	switch outcome {
	case BadAsBefore, NoSpace, Interrupted, NotWanted, BusLost:
		return true
	}
	return false
}

// EndsByBuild reports whether a change ended with a code that speaks of what it brought: it does not start or stay up,
// or it takes down its server or the way there.
func EndsByBuild(outcome string) bool {
	switch outcome {
	case NotStarted, NotReady, Exited, Unstable, RehearsalFailed, CrashedExecutor, CutOff:
		return true
	}
	return false
}
