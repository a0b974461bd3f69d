// Package task is the life of a task as one table, and what follows from it alone.
//
// Guarantees:
//
//  1. Life is the whole specification: a fact that is not in the row of a task's state
//     does not happen to it.
//  2. Every state is left by a fact or is an end, and an end is never left.
//  3. The id of a task is computed from what it is about, so that two dispatchers that
//     open the same one choose the same id and the ledger takes one of them.
package task
