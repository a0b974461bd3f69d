// Package observe looks at what is on the server: agents, their links, images, configurations
// and processes, and what the inventory does not explain. It changes nothing but its memory.
//
// Guarantees:
//
//  1. Every look reads the disk, the supervisor and /proc. Only the status may use a look at an
//     image's files that is 30 s old.
//  2. A trace is reported only if the inventory explains it neither before nor after the look,
//     and no change of its agent ended meanwhile.
//  3. Unmanaged links, processes and units are reported and never modified.
package observe
