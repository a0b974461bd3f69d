// Package user is the life of the noun user: a person, or a program that acts for one, who may
// connect. The service access writes the noun; every service that folds users takes its rules from
// here.
//
//	next, fit := user.Apply(previous, fact) // nil before the first fact
//
// Guarantees:
//
//  1. Life is one table. A fact that is not in the row of a user's state changes nothing.
//  2. Apply has no clock and no I/O: the same facts produce the same record.
//  3. A revocation covers every key that the user has. A key that was revoked never comes back; the
//     user may get a new one.
package user
