// Package steps holds the steps of a change, one small type each. A step does its work on the
// server and returns an error when it failed; package change decides what follows.
//
// Guarantees:
//
//  1. Every step may be done again from its start, after a crash at any point of it.
//  2. A step before the switch touches nothing of the agent but what Dropped and Restored sweep.
//  3. Rollback needs neither the network nor the new version.
//  4. A step keeps in the record, and saves, whatever recovery or the rollback needs to know.
package steps
