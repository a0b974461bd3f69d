package code

// The codes of requests about rollouts.
const (
	UnknownRollout  = "UNKNOWN_ROLLOUT"
	RolloutOverlaps = "ROLLOUT_OVERLAPS"
	RolloutNotFit   = "ROLLOUT_NOT_FIT"
	PlanInterrupted = "PLAN_INTERRUPTED"
)

var rolloutRequests = []Entry{
	{
		UnknownRollout, by(registry),
		"No rollout has this id, or several ids start so. The registry keeps the last 200 rollouts that ended, and " +
			"the servers of the last 20 of them; the ledger has all.",
		"garrison rollout list",
	},
	{
		RolloutOverlaps, by(registry),
		"Another rollout that has not ended changes the same agent on one of the servers.",
		"garrison rollout show ROLLOUT; wait for its end, abort it, or use --emergency",
	},
	{
		RolloutNotFit, by(registry),
		"The rollout is in a state in which this cannot be done: one that ended cannot be resumed, for example.",
		"garrison rollout show ROLLOUT",
	},
	{
		PlanInterrupted, by(registry),
		"The registry stopped while it recorded the plan of the rollout. Nothing has changed on any server.",
		"the command again; it makes a new plan",
	},
}
