// Package listening finds who listens at an address of this server.
//
// Guarantees:
//
//  1. At returns the sockets that the kernel connects a caller to: those at the very address, or else those at all
//     addresses. An IPv6 socket at all addresses counts for IPv4 where no IPv4 socket does.
//  2. An address of another server, or one that only a rule of the kernel forwards, has no sockets here.
//  3. Who returns a process of the caller's before any other.
package listening
