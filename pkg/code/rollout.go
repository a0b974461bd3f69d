package code

// The codes of rollouts.
const (
	BadStrategy         = "BAD_STRATEGY"
	CanariesExceedWave  = "CANARIES_EXCEED_WAVE"
	EmptyWave           = "EMPTY_WAVE"
	TooManyBroken       = "TOO_MANY_BROKEN"
	TooFewSucceed       = "TOO_FEW_SUCCEED"
	WorseThanUnchanged  = "WORSE_THAN_UNCHANGED"
	SilentSinceReached  = "SILENT_SINCE_REACHED"
	NotReachedAtTheEnd  = "NOT_REACHED_AT_THE_END"
	AwayAtItsTurn       = "AWAY_AT_ITS_TURN"
	UnhealthySinceReach = "UNHEALTHY_SINCE_REACHED"
)

// acceptDamage is what to do about a rollout that halted for what it broke.
const acceptDamage = "garrison rollout show ROLLOUT; garrison rollout undo ROLLOUT, or to accept the damage: " +
	"garrison block list; garrison block remove BLOCK -m WHY; garrison rollout resume ROLLOUT"

var rollouts = []Entry{
	{
		BadStrategy, by(registry),
		"The strategy of the rollout contradicts itself, or a number of it is out of its range.",
		"garrison rollout plan --help",
	},
	{
		CanariesExceedWave, by(registry),
		"The strategy asks for more canaries than the rollout has servers to change. Servers that are offline or " +
			"already unhealthy cannot be canaries.",
		"fewer --canaries, or a selector that matches more servers",
	},
	{
		EmptyWave, by(registry),
		"A stage of the strategy is for servers that meet conditions, and would have none: no server that the " +
			"rollout changes meets them, all that do are offline, unhealthy or failed before, or earlier stages take " +
			"all of them. What is behind the stage would begin without what it was to show.",
		"the command without that stage, or with other conditions; garrison server list --on SELECTOR lists the " +
			"servers that meet them",
	},
	{
		TooManyBroken, by(registry),
		"The rollout broke more servers than it may, so it halted. Servers that were broken before, and servers that " +
			"were broken when the rollout was resumed, do not count.",
		acceptDamage,
	},
	{
		TooFewSucceed, by(registry),
		"The share of the wave's servers that must succeed can no longer be reached, or the wave broke servers, none " +
			"succeeded and another wave follows, so the rollout halted.",
		acceptDamage,
	},
	{
		WorseThanUnchanged, by(registry),
		"Servers that were changed become unhealthy or silent more often than servers that are not changed yet, so " +
			"the rollout halted.",
		acceptDamage,
	},
	{
		SilentSinceReached, by(registry),
		"The server went offline after the rollout reached it, or its reports did not show the agents after their " +
			"changes, for longer than the strategy allows, so it counts as broken.",
		"garrison server show SERVER",
	},
	{
		UnhealthySinceReach, by(registry),
		"An agent on the server became unhealthy after the rollout reached it, so the server counts as broken.",
		"garrison explain SERVER",
	},
	{
		AwayAtItsTurn, by(registry),
		"The server was offline when its turn came. The rollout serves it when it is back.",
		"garrison server show SERVER",
	},
	{
		NotReachedAtTheEnd, by(registry),
		"The rollout ended before it reached the server, as its strategy allows. The server is owed the change.",
		"garrison rollout start, with the servers that are left",
	},
}
