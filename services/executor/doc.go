// Package executor is the process that runs on each server: it does what the server's document
// says, health-checks the result, rolls back what does not work, and reports.
//
// It has two halves. Package link talks to the bus; package engine changes the server and has no
// network. Documents and chunks go from the link to the engine, reports go back.
//
// Guarantees:
//
//  1. After a kill at any instant the next start leaves each agent with its old or its new version,
//     whole, and every task ends exactly once.
//  2. It works without the bus: agents are taken over, started and healed.
//  3. A refused login never removes anything and never ends it, nor does an unreadable identity.
//  4. Its own end leaves the agents running, unless it is configured to stop them.
//  5. An image replaces its program like any agent's: a new program proves itself in its place, or
//     the old one goes on; a new program that keeps ending later is given up for the one before.
//  6. It removes itself only when the registry sent at the join that the machine was enrolled
//     manually, and the registry's signature says that this very server is dead. See docs/removal.md.
//
// To run one:
//
//	err := executor.New(executor.Config{Root: "/var/lib/garrison", Log: log}).Run(ctx)
package executor
