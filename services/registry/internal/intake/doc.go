// Package intake decides when what a server says may become a fact: how often each part of it may change, and how
// much of the ledger a server may take in a day. Everything here is pure. It rests on the record that the view keeps of
// facts, so that replicas agree, and a restart forgets nothing.
//
// Guarantees:
//
//  1. A change that comes too early waits, and the last value is recorded when the time has come.
//  2. The outcome of a change that an operator asked for never waits and costs the server nothing.
//  3. A clock that was set back delays nothing.
package intake
