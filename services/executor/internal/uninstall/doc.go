// Package uninstall takes the executor's own files away, and nothing else. It decides
// nothing: see package fate.
//
// Guarantees:
//
//  1. Nothing is touched before the mark is on the disk, and the mark holds both facts
//     that allow it. From then on each step may be done again: killed at any instant,
//     the next start finishes it.
//  2. Only what is in the inventory goes. What somebody else put under the root, or in
//     the place of something of ours, stays and is named; so does the file of the keys of
//     images, unless it is as the join wrote it.
//  3. A mark that does not hold, or that was made from another identity or key than those
//     beside it, removes nothing.
package uninstall
