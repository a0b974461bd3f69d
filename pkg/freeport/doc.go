// Package freeport picks loopback ports for tests and scenarios that name a port before a process listens at it.
//
// A port that was found by listening at port 0 lies in the range from which the kernel also takes the local ports of
// outgoing connections. Between the look and the listen, or while a server restarts, any connection of the machine may
// take it, even one that a client makes to that very port. So ports come from below that range.
//
// Guarantees:
//
//  1. A process never returns a port twice.
//  2. Two processes of one user and temporary directory never return the same port while both run: each locks a block
//     of ports in a file, which the kernel unlocks when the process ends, however it ends.
//  3. No process listens at the port on 127.0.0.1 at the moment it is returned.
package freeport
