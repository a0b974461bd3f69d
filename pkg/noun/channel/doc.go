// Package channel is the life of the noun channel: an ordered list of images under a name. The
// image-catalog writes the noun; every service that folds channels takes its rules from here.
//
//	next, fit := channel.Apply(previous, fact, known) // nil before the first fact and after the last
//
// Guarantees:
//
//  1. Life is one table. A fact that is not in the row of a channel's state changes nothing.
//  2. Apply has no clock and no I/O: the same facts produce the same record.
//  3. A channel holds each image once, in the order in which they were added, and only images
//     that are known: a view that folds the fact image.deleted calls Drop for its channels.
package channel
