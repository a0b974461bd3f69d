// Package admission decides which queued tasks may go to their servers, and says of
// the others what they wait for.
//
// Everything but the limit on tasks under way at once depends on one server alone, so
// Judge looks at one server: a change costs what changed, not the fleet. Limit then
// takes from all servers' tasks that may go.
//
// Of several dispatchers one does this at a time; Patience says when another takes over.
//
// Guarantees:
//
//  1. Of the tasks of one agent on one server at most one is under way.
//  2. On a server an agent is changed after the agents that it needs, and lower tiers
//     before higher ones; an agent is removed before the agents that it needs, and
//     higher tiers before lower ones.
//  3. No order makes tasks wait for each other for ever: an agent counts as of the
//     lowest tier of those that need it, and agents that need each other go in the
//     order of the queue.
//  4. Whatever does not go has a reason, in one sentence.
package admission
