// Package instance is the life of the noun instance: an agent that is wanted on a server at an
// image. It holds the facts that move an instance, the fold of those facts into a record, and the
// state that follows from the record. The registry writes the noun.
//
//	next, fit := instance.Apply(record, fact)
//
// Guarantees:
//
//  1. Derive is the only function that decides a state, from what is wanted, what was observed
//     and where the last task of the present generation is.
//  2. Apply and ApplyTask change nothing when a fact does not fit. What was observed comes from
//     the fact observed alone: how a task ended never overwrites it.
//  3. An instance remembers what it was before the last intent changed it, and the image that
//     failed last on it.
package instance
