// Package drift compares what is wanted of a server with what is known of it, and names the cause of each difference.
// It is pure.
//
// Guarantees:
//
//  1. Of returns nothing for a server that is as it is wanted, with every instance converged and confirmed, and
//     nothing unmanaged on it.
//  2. Each difference has one cause, the most specific one: what the executor saw comes before what follows from two
//     records that differ, and that before how the last task ended.
//  3. Every cause is a declared code. A code that a server made up is replaced by a declared one.
package drift
