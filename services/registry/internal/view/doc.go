// Package view is the registry's view: a fold over the ledger, kept in tables and in indexes that are
// built from them.
//
// Guarantees:
//
//  1. The same facts in the same order lead to the same tables, byte for byte, wherever a
//     snapshot was taken and read in between.
//  2. A fact that does not fit changes nothing but the sequence of its key.
//  3. The name of a server that is not dead is unique: a second invitation under it does
//     not fit. The ledger's order decides between two registries that invite at once.
//  4. Its size is bounded by the fleet: it keeps the 10,000 intents that were decided last, by
//     the ledger's order, the open tasks, and at most a sequence of a deleted record.
//  5. A filtered list reads the most selective index and checks only its members.
//  6. A count by fields with few values reads counters that the fold keeps. One by a field of servers, a label for
//     instance, reads two numbers for each instance; one of few rows, or by a field with as many values as there are
//     rows, reads the rows that pass the filter.
//
// Its parts, of which each may use those above it:
//
//	records   the tables, what is built from them, and how a record is found
//	search    lists and counts of servers and instances by filters
//	budgets   the servers that work, by the groups of keep budgets
//	faults    the builds that failed: suspected or blocked
//	reach     what rollouts reach, and what happens to it
//	View      folds a fact into all of them
package view
