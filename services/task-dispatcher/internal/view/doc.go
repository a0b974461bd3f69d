// Package view is the dispatcher's view: tables folded from the ledger, and indexes of the work that
// is due.
//
// Tables are the whole state, and the only content of a snapshot. Each index is a pure function of
// the tables and is updated with each fact, so that finding work costs what there is to do, and
// not the size of the fleet:
//
//	due        instances that need a task, in the ledger's order
//	outdated   queued tasks that must end, because their outcome is no longer wanted
//	ready      queued tasks that may be assigned when a slot is free, in the queue's order
//	deadlines  open tasks by deadline
//	lists      tasks by intent, server, agent and state, in the queue's order
//
// Guarantees:
//
//  1. The view is a function of the facts: no clock, no error, no order of a map.
//  2. A fact that does not fit changes nothing but the sequence of its key. Which facts fit is
//     defined by pkg/noun.
//  3. All open tasks are in the view; of the ended ones the last KeepEnded, in the order in which
//     they ended.
//  4. The generation of a document moves with exactly the facts that change it.
package view
