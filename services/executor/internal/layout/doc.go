// Package layout knows where everything is under an executor's root directory, and how
// a small file is written there.
//
//	executor/            key, identity, journal.db, journal.mark, status.json, starts.json, at its end tombstone.json
//	executor/journal.db.damaged-TIME  journals that could no longer be used, the newest three
//	executor/program     a link to the executor's own program, when an image brought one
//	executor/outputs/AGENT/  the output of a first install that was undone, until the agent is installed
//	busy/NAME.json       a critical section, which a program on the server began
//	cache/DIGEST/N       chunks that were fetched and verified, while a change needs them
//	images/DIGEST/       one unpacked image, sealed
//	agents/AGENT/current a link to the image that is current
//	agents/AGENT/instance.json  what the journal says of it, for when the journal is lost
//	agents/AGENT/change.json    the change that switches it, until that has ended
//	agents/AGENT/config  a link to its configuration
//	agents/AGENT/configs/DIGEST/  what was rendered, sealed
//	agents/AGENT/state/  what the agent keeps across versions
//	agents/AGENT/run/    process records, output.log and the notify socket
//	agents/.garrison-tmp-gone-ID/, images/.garrison-tmp-gone-DIGEST/  what was removed, until it is deleted
//
// Guarantees:
//
//  1. Write replaces a file whole or not at all, also when the machine loses power.
//  2. Nothing outside the root is named, whatever an agent is called: names are
//     checked before they come here.
package layout
