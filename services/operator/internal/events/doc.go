// Package events builds garrison events, which reads and follows the ledger.
//
//  1. Facts are printed in the order of the ledger, each once.
//  2. A ledger that was set back, as by a restored backup, is reported and read again from its start.
//  3. The whole id of a noun, the name of a server, a time and the last N facts are found without reading the ledger
//     from its start.
package events
