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
//  3. A refused login never removes anything and never makes it exit.
//
//  4. Its own end leaves the agents running, unless it was asked to stop them.
//
//     err := executor.New(executor.Config{Root: "/var/lib/garrison", Log: log}).Run(ctx)
package executor
