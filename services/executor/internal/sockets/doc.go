// Package sockets holds the listening sockets of agents open while versions come and go.
//
// A socket belongs to an agent and an address, not to a version. It is opened once and passed to every version that
// names the address, so its queue of connections outlives each of them. A held socket is remembered by its inode: after
// a crash the executor takes the very same socket out of a process of the agent (pidfd_getfd(2)).
//
// Guarantees:
//
//  1. Hold opens all requested sockets, or none.
//  2. Only a socket that listens at the requested address is taken from a process, and only from the agent's own
//     processes.
//  3. Only Keep and Close close a held socket.
//  4. Files returns duplicates: closing them does not affect the Set, nor the Set them. They stay non-blocking:
//     processes that share a socket must not block in accept on a connection that another one got.
package sockets
