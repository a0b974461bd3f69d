// Package fleet runs a whole Garrison from its real binaries, in a directory of its own
// on the loopback address: garrisond or the services apart, an executor process with
// its own root directory for each server, and the operator's CLI. The demo, the
// scenarios and the benchmarks drive it.
//
// Guarantees:
//
//  1. Only the shipped binaries, the CLI and package client change anything.
//  2. Close ends every process that was started, and every agent that those started,
//     by its id, and returns an error that names those it had to kill.
//  3. Every port is free when it is chosen, and no two servers of a process share one.
//  4. Close checks every invariant over the ledger, so that no scenario leaves that out.
package fleet
