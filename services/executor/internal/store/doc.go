// Package store decides which images, chunks, kept versions and removed directories stay on
// the disk.
//
// Guarantees:
//
//  1. An image stays while the inventory or an open change names it.
//  2. Kept versions stay as Keep allows; the oldest goes first. The journal knows of each
//     until its files are gone.
//  3. What a removal moved aside is in the journal until nothing of it is left.
package store
