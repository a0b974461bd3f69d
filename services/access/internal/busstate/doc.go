// Package busstate describes the bus and finds what is wrong with it, from what its servers answer. It is pure.
package busstate
