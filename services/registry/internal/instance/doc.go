// Package instance is the noun instance: an agent that is wanted on a server at an image.
//
// Guarantees:
//
//  1. Derive is the only place that decides a state, from what is wanted, what was
//     observed and where the last task of the present generation is.
//  2. Apply and Note change nothing when a fact does not fit. What was observed comes from
//     the facts observed and adopted alone: how a task ended never overwrites it.
//  3. Differences is empty when a report says what is already recorded, so that only
//     differences become facts.
//  4. An instance remembers what it was before the last intent changed it, and the image
//     that last failed on it.
package instance
