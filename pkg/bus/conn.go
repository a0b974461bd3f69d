// Package bus is the only code that talks NATS. The rest of Garrison sees facts,
// messages and calls.
//
// # What it offers
//
//   - Writer records facts in the ledger, gathering them into atomic batches (writer.go,
//     commit.go).
//   - Replay reads the ledger from a place on, and keeps following (replay.go).
//   - Consume hands a durable consumer's messages to a handler and settles them (consume.go, settle.go).
//   - Service answers the methods of a service and Call calls one (service.go, call.go). Answer and Ask
//     do the same for a subject that is not a method (answer.go and ask.go).
//   - Pushed and DirectGet: a document comes with its bell (message.go), or is read when that rings (direct.go).
//   - DirectGetFresh reads from a replica that is proven to reach far enough (direct.go).
//   - Publish and PublishDurable for everything else (publish.go).
//   - Streams declares, backs up, restores and moves the streams, as the user who provisions them (streams.go).
//   - System asks the servers of the bus about themselves, as a user of the system account (system.go).
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
//     recorder.go. The ledger's duplicate window bounds how long that is possible. An
//     acknowledgment that says duplicate counts only when the message stored is on the fact's own
//     subject: the bus knows ids by the stream, and another service could use them. No other
//     message has an id.
//  4. Replay returns every message exactly once and in order within one call; a gap ends
//     the call with an error instead of being passed over.
//  5. A handler given to Consume sees each message at least once. Messages on one
//     subject are handled one after another, and are not delivered again while they are
//     handled or wait for it; the messages of a killed process are delivered again after
//     topology.AckWait. The handler's error alone decides the outcome, in settle: nil
//     acknowledges the message, Invalid makes it a dead letter at once,
//     Unavailable and Conflict are retried without limit, and any other error is retried
//     and becomes a dead letter after topology.MaxDeliver tries. Senders are served in turn:
//     the messages of one server delay another's by one of them at most (queues.go), and of
//     one server at most topology.DeadLettersKept dead letters a minute are stored.
//  6. A bell may be missed. Its listeners also read on a timer. It carries its document, and names
//     the document's sequence, so that a listener knows an older one when it reads it.
//  7. Every call and every queue has a bound: calls by their context or DefaultTimeout,
//     queues by the constants beside them.
//  8. The cause of a failed login is one of a few named ones (Login); every error text of
//     nats-server maps to one.
//
// # Replicas that lag behind
//
// With three servers, any replica answers a direct get. What the readers do when it lacks the newest messages:
//
//   - What became of a try to record a fact is asked of the leader, by message id (find in recorder.go). The look at
//     the owner of a duplicate is a direct get by sequence: without a message it is Unavailable, and tried again.
//   - The registry's look for an intent takes what it finds, and calls an intent unknown after DirectGetFresh only.
//   - The executor's reading of its document is compared with the sequence that the bell announced, and repeated.
//   - Where a stream ends is asked of its leader, which may be new and behind what was read: StreamFrom asks again
//     before a stream counts as shorter, and with it as replaced or as having lost facts. A replay goes on meanwhile,
//     and ends once the stream is long enough: the fold then compares the last fact that it has read.
//   - DirectGetFrom at one position, by a fold and by the registry's check of an epoch, is Unavailable when the
//     message is not there, and tried again.
//   - DirectGetPart, for people who read the ledger, ends early, without a gap. The reader continues at its place with
//     the next fact, and takes a last fact that is gone for a ledger that was set back only when it stays away.
//     That no fact is as new as a time follows from the last fact alone (since in pkg/facts).
//   - The dispatcher's comparison of a document, and the registry's look for a later report, are guarded: an old answer
//     costs a conflict and another try.
//   - The image-catalog's look whether a document names an image keeps only what it found. An older document refuses a
//     chunk, with the time after which the server may ask again; the next look reads the document anew.
//   - Chunks never change: one that a replica lacks is asked for again, also where the image-catalog checks the content
//     of an image, every chunk of it listed by the leader.
//   - The last list of candidates, for people, may be an older one. It decides nothing.
//   - DirectGetLast, for a fold of a ledger with accepted gaps, may return an older end; the fold follows from there.
package bus

import (
	"context"
	"time"
)

// DefaultTimeout bounds a call whose context has no deadline.
const DefaultTimeout = 5 * time.Second

// Conn is a connection to the bus. It is safe for concurrent use.
type Conn struct {
	*session
	streamReader
	options Options
	name    string
}

// Name returns the user's name.
func (c *Conn) Name() string { return c.name }

// CertificateUntil returns until when the certificates that the bus presented are valid; the zero time without TLS.
func (c *Conn) CertificateUntil() (until time.Time) {
	state, err := c.nc.TLSConnectionState()
	if err != nil {
		return until
	}
	for _, cert := range state.PeerCertificates {
		if until.IsZero() || cert.NotAfter.Before(until) {
			until = cert.NotAfter
		}
	}
	return until
}

func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, DefaultTimeout)
}
