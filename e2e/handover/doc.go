// Package handover upgrades an agent that has a socket, again and again, while clients
// ask it, and counts the answers that did not come. make handover and the scenarios use it.
//
// Guarantees:
//
//  1. Each request has a connection of its own, and none is tried twice.
//  2. Whatever is no whole answer with status 200 is counted: as refused when nobody
//     listened, as failed otherwise.
package handover
