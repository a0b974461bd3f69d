// Package facts answers people who read the ledger: the method ReadFacts of the registry.
//
// People have no permission to read the stream itself, because a direct get takes any filter and sends as much as is
// asked for. Here a read has a size, a rate and a filter that the service builds.
//
// Guarantees:
//
//  1. An answer has at most MostFacts facts and about MostBytes bytes. A body that is larger than an answer is left
//     out, and the answer has its size.
//  2. An actor has at most ReadsPerActor reads at a time and BytesPerSecond, and all actors together ReadsAtOnce reads.
//     Beyond that a read is refused at once with BUSY and the time after which it may be repeated.
//  3. A read takes at most readWithin.
//  4. No text of a request is used as a pattern: a noun and a kind are those of package ledger, and a key has no
//     wildcard.
//  5. The facts of an answer are in order, and none between them matches the filter and is missing.
package facts
