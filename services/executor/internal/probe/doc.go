// Package probe finds out whether a started agent works.
//
// Guarantees:
//
//  1. Prove returns nil only when the probe passed and the agent then stayed up, and
//     its probe kept passing, for the whole soak.
//  2. Every wait ends: with the agent's exit, the time-out, or the context.
//  3. An HTTP probe follows no redirect, keeps no connection and reads no body.
package probe
