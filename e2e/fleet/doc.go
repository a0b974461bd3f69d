// Package fleet runs a whole Garrison from its real binaries, in a directory of its own
// on the loopback address: garrisond or the services apart, an executor process with
// its own root directory for each server, and the operator's CLI. The demo, the
// scenarios and the benchmarks drive it.
//
// Guarantees:
//
//  1. Nothing but the shipped binaries and the CLI is used to make things happen.
//  2. Close ends every process that was started, and every agent that those started,
//     by its id, and says which it had to kill.
//  3. No port is fixed.
//  4. Close checks every invariant over the ledger, so no scenario can leave that out.
package fleet
