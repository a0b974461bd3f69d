// Package task is the life of the noun task: its states, the facts that move it, and the fold of
// those facts into a record. The task-dispatcher writes the noun; every service that folds tasks
// takes its rules from here.
//
//	next, fit := task.Apply(previous, fact) // nil before the first fact
//
// Guarantees:
//
//  1. Life is one table. A fact that is not in the row of a task's state changes nothing.
//  2. A task has one end. The fact reported-late completes the record of an expired task, once,
//     and leaves it expired.
//  3. Apply has no clock and no I/O: the same facts produce the same record.
//
// The fact claimed has the noun task in its subject and is about no task: it fits nowhere.
package task
