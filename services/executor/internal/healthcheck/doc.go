// Package healthcheck checks whether a started agent works: it sent READY=1, answers over HTTP or TCP, passes a program
// of its image, or just stays up.
//
// Guarantees:
//
//  1. Await returns nil only when the check passed and the agent then stayed up, and kept passing, for the whole soak.
//  2. Every wait ends: with the agent's exit, the time-out, or the context.
//  3. An HTTP check follows no redirect, keeps no connection and reads no body.
//  4. An HTTP or TCP check passes only when the caller says that what answered is the agent's.
//  5. The process group of a checking program, and what left the group, ends with the try, and is killed with the
//     executor; 1 KiB of its output is kept.
package healthcheck
