// Package image is the life of the noun image: its states, the facts that move it, and the
// fold of those facts into a record. The image-catalog writes the noun; every service that
// folds images takes its rules from here.
//
//	next, fit := image.Apply(previous, fact) // nil before the first fact and after the last
//
// Guarantees:
//
//  1. Life is one table. A fact that is not in the row of an image's state changes nothing.
//  2. Apply has no clock and no I/O: the same facts produce the same record.
//  3. An image becomes active only after its content was found whole (the fact filled).
//  4. A deleted image has no record. The same build may be created again, as a new life.
//
// That an agent, version and platform have one image at most is a rule over several images;
// the image-catalog's view enforces it.
package image
