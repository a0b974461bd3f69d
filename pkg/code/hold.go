package code

// The codes of holds and of notes.
const (
	Held         = "HELD"
	NotHeld      = "NOT_HELD"
	HoldIsWider  = "HOLD_IS_WIDER"
	TooManyHolds = "TOO_MANY_HOLDS"
	BadHold      = "BAD_HOLD"
	BadNote      = "BAD_NOTE"
)

var holds = []Entry{
	{
		Held, by(registry),
		"An operator holds the agent on the server: no intent changes it there until the hold ends. The message " +
			"names the owner, the end and the reason.",
		"garrison hold list AGENT; garrison unhold AGENT --on SELECTOR, and then the same again",
	},
	{
		NotHeld, by(registry),
		"No hold has this id, or none of the agent is about the selected servers.",
		"garrison hold list",
	},
	{
		HoldIsWider, by(registry),
		"The hold is also about servers that are not selected. A hold ends as a whole.",
		"garrison unhold --id HOLD, and then garrison hold AGENT on the servers that stay held",
	},
	{
		TooManyHolds, by(registry),
		"There are as many holds as the registry keeps.",
		"garrison hold list; garrison unhold AGENT --on SELECTOR",
	},
	{
		BadHold, by(registry),
		"A hold would end at a time that is not in the future.",
		"garrison hold AGENT --on SELECTOR --until 24h",
	},
	{
		BadNote, by(registry),
		"A note or a reason is longer than 500 bytes or has characters that are not printable.",
		"the same with a shorter text on one line",
	},
}
