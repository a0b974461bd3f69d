// Package dispatcher is the task-dispatcher: the service that decides when, in what order and how
// fast changes reach the servers, and when to stop trying.
//
// No pass scans the fleet. The view (internal/view) indexes the work that is due, and these parts do
// it side by side, most of them woken whenever the ledger moves:
//
//	open      a task for each instance whose generation has none, and for each refresh
//	lead      takes over when tasks are ready and the leader is idle
//	admit     assigns queued tasks, under the limit on tasks under way at once
//	expire    ends tasks whose deadline passed
//	publish   writes the documents of servers that changed
//	reports   turns servers' reports into facts about tasks
//
// Guarantees:
//
//  1. A task is opened once: its id is computed from what it is about, and its first fact is guarded
//     by that key.
//  2. Never more than Config.Concurrency tasks are under way, and of one agent on one server at most
//     one, also while several dispatchers run: a task leaves the queue only under the last claim, by
//     the process that recorded it, when its view holds all that was recorded under earlier claims
//     and under its own.
//  3. A document is a pure projection of the view. Its generation is a position in the ledger; an
//     older document never replaces a newer one.
//  4. Every task ends: by a report, by its deadline, or because its outcome is no longer wanted.
//  5. Every part may be stopped anywhere and run twice: finished work is in the ledger, and the view
//     finds the rest again.
package dispatcher
