// Package probe finds out whether a started agent works.
//
// Guarantees:
//
//  1. Prove returns nil only when the probe passed and the agent then stayed up, and
//     its probe kept passing, for the whole soak.
//  2. Every wait ends: with the agent's exit, the time-out, or the context.
//  3. An HTTP probe follows no redirect, keeps no connection and reads no body.
//  4. A program that probes ends with its whole process group, and with what left the group,
//     when its try ends, and is killed with the executor; of its output 1 KiB is kept.
package probe
