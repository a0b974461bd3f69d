// Package usual keeps how long changes of one kind usually take, such as the upgrades of an agent, and
// derives from it how long the next one may be under way.
//
// Durations are counted by classes that are a fifth apart, from a millisecond to a day. The newest
// window successful changes are counted in one generation of counts, and those before them in another:
// what is known rests on the last 256 to 511, and costs a few hundred bytes for each step.
//
// Guarantees:
//
//  1. Only changes that succeeded are counted. One that ran out of time shortens nothing.
//  2. Nothing is learnt from fewer than Enough.
//  3. A change has at least Times what all but one in a hundred took, within the bounds.
//  4. What a fleet on fast links shows is not applied to a slow one: while that is within the time of
//     changes of which nothing is known, a fetch has the time of a link of slowLink.
//  5. Quantiles are rounded up to the limit of their class, by a fifth at most.
//  6. A record is a function of the durations in their order, on every machine.
package usual
