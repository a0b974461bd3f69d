// Package topology is the bus on one page: every account, stream, subject and
// permission, as values. No other package spells a subject or chooses a stream's settings;
// only the subjects of facts are built by package ledger. A test in e2e/arch checks that.
//
// The page itself is testdata/topology.golden, printed from these values by a test: a
// difference there is a change of the design.
//
// Guarantees:
//
//  1. Streams are provisioned from Streams by Ensure, which refuses a change that
//     could lose data, and names what differs. A bus carries the Number of the topology
//     that it was brought to; Steps names what each number changed. A bus of a newer
//     number is left as it is, or refused when its floor is above this program's Number.
//  2. A server's credentials reach its own document, its own reports and the blobs,
//     and nothing else: see Exports, and the attack tests in package trust.
//  3. A service may publish facts about its own nouns only, its reply subjects included: it has
//     an account of its own and imports exactly what it uses. See Exports, and the attack tests in package trust.
package topology
