// Package dispatcher is the service task-dispatcher: it decides when, in what order and
// how fast what is wanted comes to the servers, and when to stop trying.
//
// A pass never looks at the fleet. The view (internal/view) says what there is to do,
// and six lanes, each woken when the ledger moves, do it side by side:
//
//	open      a task for each instance whose generation has none, and for each refresh
//	claim     takes over when something could leave the queue and nothing does
//	admit     queued tasks that may go, under the limit on tasks under way at once
//	expire    tasks whose deadline passed
//	publish   the documents of servers that changed
//	hear      reports, which become facts about tasks
//
// Guarantees:
//
//  1. A task is opened once: its id is computed from what it is about, and its first
//     fact is guarded by that key.
//  2. Never more than Config.Concurrency tasks are under way, and of one agent on one
//     server at most one, also while several dispatchers run: a task leaves the queue
//     only under the last claim, by the process that made it, when its view holds all
//     that was recorded under earlier claims and under its own.
//  3. A document is a pure projection of the view. Its generation is a place in the
//     ledger; an older one never replaces a newer one.
//  4. Every task ends: by a report, by its deadline, or because what it would bring
//     about is not wanted any more.
//  5. Every lane may be stopped anywhere, and run twice: what is done is in the ledger,
//     and what is not is found again by looking.
package dispatcher
