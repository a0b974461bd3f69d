// Package bus is the only code that talks NATS. The rest of Garrison sees facts,
// messages and calls.
//
// # What it offers
//
//   - Writer records facts in the ledger, gathering them into atomic batches (writer.go,
//     commit.go).
//   - Replay reads the ledger from a place on, and keeps following (replay.go).
//   - Consume hands a durable consumer's messages to a handler and settles them (consume.go).
//   - Service answers requests; Call asks (service.go, call.go).
//   - DirectGet and Bell: a document is read when its bell rings (direct.go).
//   - Publish and PublishDurable for everything else (conn.go).
//
// # Guarantees
//
//  1. Append returns without an error only when all of its facts are stored, in order
//     and next to each other: the bus acknowledged them, or returned the sequence of each.
//     It returns an error of kind Conflict only when they are not stored together: a guard
//     does not hold, or another writer stored some of them. Any other error means that the
//     outcome is not known, and the guards of the facts decide what a retry does.
//  2. A fact with a guard is recorded only if nothing else was recorded under its
//     guard's subject since the guard's sequence. Of two writers one wins.
//  3. A fact is recorded at most once, whatever was retried: its id is the message id.
//     What became of a try is asked of the stream's leader, by that id; see find in
//     recorder.go. The ledger's duplicate window bounds how long that is possible.
//  4. Replay gives every message exactly once and in order within one call; a gap ends
//     the call with an error instead of being passed over.
//  5. A handler given to Consume sees each message at least once. Messages on one
//     subject are handled one after another, and are not delivered again while they are
//     handled or wait for it; what a killed process held is delivered again after
//     topology.AckWait. The handler's error alone decides what
//     becomes of the message, in settle: nil is done, Invalid is quarantined at once,
//     Unavailable and Conflict are tried again for ever, and anything else is tried
//     again later and quarantined after topology.MaxDeliver tries.
//  6. A bell may be missed. Whoever listens to one also reads on a timer.
//  7. Every call and every queue has a bound: calls by their context or DefaultTimeout,
//     queues by the constants beside them.
//  8. Why a login failed is one of a few named causes (Login), and every text that a
//     nats-server may say has one.
package bus
