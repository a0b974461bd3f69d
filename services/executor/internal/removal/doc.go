// Package removal removes the executor from its server: its agents, where a command cleans up
// after it, and then its own files. It gathers facts, asks package lifecycle, and acts.
//
// Guarantees:
//
//  1. One decision, lifecycle.Decide, allows every removal: by the executor that runs (Last),
//     and by a command in its place, with the bus or with a tombstone brought by hand (Run).
//  2. Nothing is removed before the mark is on the disk, and the mark holds both facts that
//     allow the removal. From then on each step is repeatable: after a kill at any instant the
//     next start completes it.
//  3. Only what the inventory lists is removed. Anything else under the root stays and is
//     named; so does the file of image keys, unless it is as the join wrote it.
//  4. A mark that is invalid, or that was made from another identity or key than those beside
//     it, removes nothing.
//  5. A dry run changes nothing.
package removal
