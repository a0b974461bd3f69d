// Package executor is the process that runs on each server: it does what the server's
// document says, proves it, undoes it when it does not work, and reports.
//
// It has two halves. The link talks to the bus; the engine changes the server and has no
// network. Between them is a narrow door: documents and chunks in one direction, reports
// in the other.
//
// Guarantees:
//
//  1. Killed at any instant and started again, each agent is its old or its new version,
//     whole, and every task ends exactly once.
//
//  2. It works with the bus away: agents are taken over, started and healed.
//
//  3. A refused login never removes anything and never makes it exit, nor does an identity
//     that cannot be read.
//
//  4. Its own end leaves the agents running, unless it was asked to stop them.
//
//  5. It is replaced by an image like any agent: a new program proves itself in its place, or
//     the old one goes on; and one that keeps ending later is given up for the one that was started.
//
//  6. It removes itself only when it was told, once, that a person made the machine, and
//     the registry's signature says that this very server is dead. See UNINSTALL.md.
//
//     err := executor.New(executor.Config{Root: "/var/lib/garrison", Log: log}).Run(ctx)
package executor
