// Package configdir renders the configuration of an agent and keeps it on the disk. A
// rendered directory is named by the digest of everything in it.
//
// Guarantees:
//
//  1. A directory under its digest holds exactly the files that were rendered, with their
//     modes and their group; Check finds any other content, more files or fewer.
//  2. Place makes a directory whole and durable before it has its name, and seals it.
//  3. A template is read from within the image only, and what it becomes is bounded.
package configdir
