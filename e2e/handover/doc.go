// Package handover upgrades an agent that has a socket, many times, while clients send it
// requests, and counts the requests without an answer. make handover and the scenarios use it.
//
// Guarantees:
//
//  1. Each request has a connection of its own, and no request is retried.
//  2. Every request without a complete answer with status 200 is counted: as refused when
//     no process listened, as failed otherwise.
package handover
