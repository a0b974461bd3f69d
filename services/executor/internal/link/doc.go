// Package link is the half of the executor that talks to the bus. It changes nothing on
// the server but the cache of chunks, and hands documents through a narrow Backend.
//
// Guarantees:
//
//  1. It takes the server's document from the bell, and reads it at a bell without it, after a reconnect, and on a
//     jittered timer, so that a missed bell costs one interval at most. A bell announces the sequence of its document:
//     what is older, because a replica answered that lags behind, is read again, four times within half a second and
//     once more after five seconds. All of that keeps to one pace.
//  2. A document for another server or cell is never handed on.
//  3. Reports are published one after another in order, each until it is acknowledged. They have no message id, under
//     which another server could block them: a report that is stored twice changes nothing the second time. What
//     was acknowledged in the last minutes is published again after a reconnect, as the bus may have lost it.
//  4. It requests chunks from the image-catalog, at most topology.ChunkWindow at a time. Every
//     chunk in the cache was compared with its digest. A chunk in the cache is not fetched again.
//  5. It retries a refused login and an unreachable bus without a limit.
package link
