// Package admission decides which queued tasks may be assigned, and why the others wait.
//
// All conditions but the limit on tasks under way depend on one server alone, so Decide takes one
// server: a change costs what changed, not the size of the fleet. Limit then selects from the ready
// tasks of all servers.
//
// Of several dispatchers one, the leader, admits at a time; TakeOver decides when another takes over.
//
// Guarantees:
//
//  1. Of the tasks of one agent on one server at most one is under way.
//  2. On a server an agent is changed after the agents that it needs, and lower tiers before higher
//     ones; an agent is removed before the agents that it needs, and higher tiers before lower ones.
//  3. No order makes tasks wait for each other without end: an agent counts with the lowest tier of
//     those that need it, and agents that need each other follow the order of the queue.
//  4. Every task that waits has a reason, in one sentence.
package admission
