// Package listening finds who listens at an address of this server.
//
// Guarantees:
//
//  1. At returns the sockets to which the kernel gives a connection: those at the very address, and those at all
//     addresses only where there is none. An IPv6 socket at all addresses counts for IPv4 where no IPv4 socket does.
//  2. An address of another server, or one that only a rule of the kernel forwards, has no sockets here.
//  3. Who returns a process of the caller's before any other.
package listening
