// Package intent is the life of the noun intent: a request is decided once, and an accepted one
// may be withdrawn once. The registry writes the noun.
//
//	next, fit := intent.Apply(record, fact)
//
// Guarantees:
//
//  1. An intent is decided once. A second decision does not fit.
//  2. Only an accepted intent can be withdrawn, and only once.
package intent
