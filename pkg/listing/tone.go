package listing

// Tone is what a word for a state means to a person who looks for trouble.
type Tone string

// The tones.
const (
	Plain Tone = ""     // in between
	Good  Tone = "good" // as it should be
	Look  Tone = "look" // it waits, or needs a look
	Bad   Tone = "bad"  // it failed
	Past  Tone = "past" // it is over
)

// Tones are the tones of the words for states.
var Tones = map[string]Tone{
	"failed": Bad, "undone": Bad, "bad": Bad, "offline": Bad, "broken": Bad, "halted": Bad, "refused": Bad,
	"revoked": Bad, "expired": Bad, "duplicate": Bad, "suspended": Bad,

	"held": Look, "late": Look, "paused": Look, "pending": Look, "drifted": Look, "removing": Look,
	"dying": Look, "quarantined": Look, "absent": Look, "cancelled": Look, "aborted": Look, "owed": Look,
	"disabled": Look, "unactivated": Look, "waiting": Look, "due": Look, "left-out": Look, "leaked": Look,
	"stale": Look, "ahead": Look, "found": Look, "reinstalling": Look, "uninstalling": Look, "slow": Look,
	"note": Look, "blocked": Look, "busy": Look,

	"converged": Good, "good": Good, "online": Good, "succeeded": Good, "active": Good, "present": Good,
	"valid": Good, "done": Good,

	"invited": Plain, "alive": Plain, "enrolled": Plain, "queued": Plain, "assigned": Plain, "running": Plain,
	"planned": Plain, "reached": Plain, "accepted": Plain, "resting": Plain, "external": Plain,

	"dead": Past, "gone": Past, "superseded": Past, "withdrawn": Past, "used-up": Past, "removed": Past,
	"beyond": Past,
}
