// Package link is the half of the executor that talks to the bus. It changes nothing on
// the server but the cache of chunks, and hands documents through a narrow Door.
//
// Guarantees:
//
//  1. The server's document is read when its bell rings, when the bus is back, and on a
//     jittered timer, so that a missed bell costs one interval at most.
//  2. A document for another server or cell is never handed on.
//  3. Reports are published one after another in order, each until it is acknowledged;
//     its message id is its sequence, so a repeat is stored once. What was acknowledged
//     in the last minutes is said again when the bus is back, which may have forgotten it.
//  4. Every chunk in the cache was compared with its digest. Chunks that are there
//     already are not fetched again.
//  5. At most Window chunks are under way.
//  6. A refused login or a bus that is away is waited out, for ever.
package link
