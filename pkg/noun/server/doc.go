// Package server is the life of the noun server: its states, the facts that move it, and the
// fold of those facts into a record. The registry writes the noun; every service that folds
// servers takes its rules from here.
//
//	next, fit := server.Life.Next(server.StateOf(record.GetLife()), fact.Name())
//
// Guarantees:
//
//  1. Life is one table and only moves forward. A fact that is not in it changes nothing.
//  2. Apply has no clock and no I/O: the same facts produce the same record.
//  3. A dead server has no token, no key and no presence. Unmanaged agents are kept apart, as
//     found at its death.
package server
