// Package change is the life of one change of one agent: its record, its states, which step
// follows, what recovery does after a crash, and how the change ends. It is pure: the engine
// does the steps and writes the journal.
//
// Guarantees:
//
//  1. The tables (Bring, Self, Removal) are the specification. Next and Recover only read them.
//  2. The state is derived from the record, so a journal of any format shows where a change is.
//  3. From every crash point a change ends with the new version, with the old one, or dropped
//     untouched. Only a rollback that fails ends it elsewhere, and that end is Failed.
//  4. A change that has not touched its agent is dropped by recovery: the document brings it back.
//
// The states, drawn from the tables, are in services/executor/docs/changes.md.
package change
