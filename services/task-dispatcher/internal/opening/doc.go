// Package opening decides which tasks are opened, and with what content.
//
// It is pure. Guarantees:
//
//  1. The id of a task is computed from what it is about: two dispatchers that open the same task
//     choose the same id, and the ledger accepts one of them.
//  2. A generation of an instance has one task at a time. Another attempt follows only after an end
//     that is retried, once the server is online again.
package opening
