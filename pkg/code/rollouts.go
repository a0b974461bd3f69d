package code

// The codes of requests about rollouts.
const (
	UnknownRollout   = "UNKNOWN_ROLLOUT"
	AmbiguousRollout = "AMBIGUOUS_ROLLOUT"
	RolloutOverlaps  = "ROLLOUT_OVERLAPS"
	RolloutNotFit    = "ROLLOUT_NOT_FIT"
	PlanInterrupted  = "PLAN_INTERRUPTED"
	StartPassed      = "START_PASSED"
	ApproverStarted  = "APPROVER_STARTED"
	WaveRejected     = "WAVE_REJECTED"
	ImpossibleSet    = "IMPOSSIBLE_SET"
)

var rolloutRequests = []Entry{
	{
		UnknownRollout, by(registry),
		"No rollout has this id. The registry keeps the last 200 rollouts that ended, and " +
			"the servers of the last 20 of them; the ledger has all.",
		"garrison rollout list",
	},
	{
		AmbiguousRollout, by(registry),
		"The prefix matches the ids of several rollouts, which the message names. Use a longer prefix: ids are in " +
			"order of time, and those of one minute begin alike.",
		"garrison rollout list",
	},
	{
		RolloutOverlaps, by(registry),
		"Another rollout that has not ended changes the same agent on one of the servers.",
		"garrison rollout show ROLLOUT; wait for its end, abort it, or use --emergency",
	},
	{
		ImpossibleSet, by(registry),
		"The images of the rollout require versions of each other that do not fit, or no order of the changes keeps " +
			"what they require. No server has changed.",
		"garrison image show IMAGE; other versions, or versions in between",
	},
	{
		RolloutNotFit, by(registry),
		"The rollout is in a state in which this cannot be done: one that ended cannot be resumed, for example.",
		"garrison rollout show ROLLOUT",
	},
	{
		StartPassed, by(registry),
		"The time at which the rollout was to begin has passed. A plan that was saved with a time begins at that " +
			"time, not later.",
		"the command with a later --at, as in garrison rollout apply FILE --at TIME",
	},
	{
		ApproverStarted, by(registry),
		"The approval of the rollout must come from another actor than the one who asked for it.",
		"garrison rollout approve ROLLOUT, by another person or a program with the role approver",
	},
	{
		WaveRejected, by(registry),
		"A person or a program who may approve a wave of the rollout refused it, for the reason in the message. The " +
			"rollout halted, and its broken servers go back to what they had.",
		"garrison rollout show ROLLOUT; garrison rollout undo ROLLOUT, or garrison rollout resume ROLLOUT, which " +
			"waits for an approval again",
	},
	{
		PlanInterrupted, by(registry),
		"The registry stopped while it recorded the plan of the rollout. Nothing has changed on any server.",
		"the command again; it makes a new plan",
	},
}
