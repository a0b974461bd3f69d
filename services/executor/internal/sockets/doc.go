// Package sockets holds agents' listening sockets open while versions come and go.
//
// A socket belongs to an agent and an address, not to a version. It is opened once and
// handed to every version that names the address, so its queue of connections outlives
// each of them. What is held is remembered by its inode: an executor that was killed
// takes the very same socket back out of a process of the agent (pidfd_getfd(2)).
//
// Guarantees:
//
//  1. Hold opens every socket that it is asked for, or none.
//  2. Only a socket that listens at the address that was asked for is ever taken from a
//     process, and only from the agent's own processes.
//  3. A held socket is closed by Keep and Close alone.
//  4. What Files gives are duplicates: closing them, and whatever happens to the Set
//     meanwhile, does no harm to the other. They stay non-blocking: processes that share
//     a socket must not wait in accept for a connection that another one got.
package sockets
