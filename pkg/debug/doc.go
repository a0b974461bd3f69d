// Package debug serves the inside of a process to a person on the same machine: profiles, metrics
// and state as JSON, over HTTP on a unix socket.
//
//	GET /                  lists the paths
//	GET /state             returns all state as one JSON object
//	GET /state/NAME        returns one part of the state; some parts take a query
//	GET /metrics           returns the metrics of the Go runtime as JSON
//	GET /debug/pprof/...   returns profiles, as package net/http/pprof describes
//
// Guarantees:
//
//  1. Nothing listens unless a flag names a socket.
//  2. The socket has mode 0600 before the first connection: only the user of the process and root
//     can connect. There is no TCP listener.
//  3. Requests change nothing in the process, except that a profile costs time while it is taken.
//  4. A socket that a killed process left is replaced; a live one is a Conflict.
package debug
