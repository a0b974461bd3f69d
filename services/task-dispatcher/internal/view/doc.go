// Package view is what the dispatcher knows: tables folded from the ledger, and the
// indexes that tell what there is to do.
//
// Tables are the whole state, and the only thing in a snapshot. Each index is a pure
// function of the tables, kept up to date with each fact, so that looking for work
// costs what there is to do and not the fleet:
//
//	due        instances that must get a task, in the ledger's order
//	stale      queued tasks that must end, because what they would bring about is not wanted
//	ready      queued tasks that may go as soon as there is a free place, in the queue's order
//	deadlines  open tasks by deadline
//	lists      tasks by intent, server, agent and state, in the queue's order
//
// Guarantees:
//
//  1. The view is a function of the facts: no clock, no error, no order of a map.
//  2. A fact that does not fit changes nothing but the sequence of its key.
//  3. Open tasks are all there; of the ended ones the last KeepEnded, in the order in
//     which they ended.
//  4. The generation of a document moves with exactly the facts that change it.
package view
