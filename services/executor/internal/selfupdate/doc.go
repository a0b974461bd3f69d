// Package selfupdate replaces the program of this process by the program of an image.
//
// An image of kind self brings a new executor. Its change runs like any other until the switch:
//
//  1. Rehearse: the new program reads a copy of the journal and the server's document, beside this one.
//  2. Trial: this process releases journal, bus and agents, and starts the new program as its child,
//     the candidate, which works in its place. The candidate dies with this process, so there is
//     never more than one executor.
//  3. Commit: a candidate that worked is linked, and this process becomes that program.
//
// Guarantees:
//
//  1. A candidate that does not prove itself never becomes the linked program; this one goes on.
//  2. A program that proved itself and later keeps ending is started at most three times in a row
//     without staying up. After that the version before it runs, or the program that was installed
//     by hand.
//  3. Killed at any instant, the next start runs one whole program.
package selfupdate
