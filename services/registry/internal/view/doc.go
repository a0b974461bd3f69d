// Package view is everything that the registry knows: a fold over the ledger, kept in
// tables and in indexes that are made from them.
//
// Guarantees:
//
//  1. The same facts in the same order give the same tables, byte for byte, wherever a
//     snapshot was taken and read in between.
//  2. A fact that does not fit changes nothing but the sequence of its key.
//  3. The name of a server that is not dead is unique: a second invitation under it does
//     not fit. The ledger's order decides between two registries that invite at once.
//  4. It is bounded by what is under management: of intents the last 10,000 decided are
//     kept, by the ledger's order; of tasks the open ones; of what is deleted at most a sequence.
//  5. A filtered list reads the most selective index and checks only what that holds.
package view
