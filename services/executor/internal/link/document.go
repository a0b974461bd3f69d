package link

import (
	"context"
	"math/rand/v2"
	"time"

	"golang.org/x/time/rate"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
)

const (
	readsAtOnce  = 10 // readings without a pause before the pace applies
	readsASecond = 2
	retryEvery   = 5 * time.Second
)

// againAfter are the pauses before a document is read again that is older than its bell announced. Any replica of the
// stream answers a reading, and one that is not the leader stores a document a moment after the leader rang.
var againAfter = [...]time.Duration{20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond}

// jitter spreads a fleet's reads: from three quarters to five quarters of d.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + time.Duration(rand.Int64N(int64(d/2)+1))
}

// read reads the document whenever it may have changed. However often the bell rings, it reads at
// most at its pace. It reads a second time soon after each connect: the server of the bus that has the connection
// confirms the subscription to bells before the others know of it, and one of those may ring meanwhile.
func (l *Link) read(ctx context.Context) error {
	r := &reading{
		pace: rate.NewLimiter(readsASecond, readsAtOnce), offer: l.cfg.Backend.Offer,
		get: func(ctx context.Context) (*desiredv1.Document, uint64, error) {
			return stored(ctx, l.cfg.Conn, l.cfg.Address)
		},
		decode: func(m bus.Message) (*desiredv1.Document, error) { return decode(m, l.cfg.Address) },
	}
	var settled time.Time // when all servers of the bus must know the newest subscription
	for {
		if err := r.pace.Wait(ctx); err != nil {
			return ctx.Err()
		}
		if err := l.cfg.Conn.WaitConnected(ctx); err != nil {
			return ctx.Err()
		}
		wait := jitter(l.cfg.PollInterval)
		began := time.Now()
		if l.new.Swap(false) {
			settled = began.Add(jitter(retryEvery))
		}
		old, err := r.next(ctx, &l.rung)
		if l.cfg.Read != nil && ctx.Err() == nil {
			l.cfg.Read(err)
		}
		if err != nil && ctx.Err() == nil {
			l.cfg.Log.Warn().Err(err).Msg("document not read")
		}
		if err != nil || old {
			wait = min(wait, jitter(retryEvery))
		}
		if began.Before(settled) {
			wait = min(wait, max(0, time.Until(settled)))
		}
		if l.deaf.Load() {
			wait = min(wait, readDeaf)
		}
		if err := l.untilDue(ctx, wait); err != nil {
			return err
		}
	}
}

// untilDue waits for the bell, the timer, or a reconnect.
func (l *Link) untilDue(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-l.bell.C():
	case <-timer.C:
	}
	return nil
}

// reading reads a document and offers it.
type reading struct {
	pace  *rate.Limiter
	get   func(context.Context) (d *desiredv1.Document, sequence uint64, err error) // nil and 0 without a document
	offer func(*desiredv1.Document)

	decode func(bus.Message) (*desiredv1.Document, error)
	last   uint64 // the sequence of the document that was offered last
}

// next offers the document that came with the newest bell, or reads it. A document that came with a bell is not behind
// what was read: the server of the bus that leads the stream rings when it stores.
func (r *reading) next(ctx context.Context, bells *rung) (old bool, err error) {
	newest, m := bells.take()
	if m.Sequence < newest || m.Sequence <= r.last {
		return r.once(ctx, newest)
	}
	d, err := r.decode(m)
	if err != nil { // the reading says so
		return r.once(ctx, newest)
	}
	r.offer(d)
	r.last = m.Sequence
	return false, nil
}

// once reads the document, and again while it is older than the announced sequence. It reports whether it still is.
// Other servers can ring this one's bell with any number: what is read is offered whatever was announced, each further
// reading waits for the pace, and there are len(againAfter) at most.
func (r *reading) once(ctx context.Context, announced uint64) (old bool, err error) {
	var offered uint64
	for n := 0; ; n++ {
		d, sequence, err := r.get(ctx)
		if err != nil {
			return false, err
		}
		if d != nil && sequence != offered {
			r.offer(d)
			offered, r.last = sequence, sequence
		}
		if old = sequence < announced; !old || n == len(againAfter) {
			return old, nil
		}
		_ = wakeup.Pause(ctx, againAfter[n])
		if err := r.pace.Wait(ctx); err != nil {
			return true, err
		}
	}
}

// Document returns a server's document; nil when nothing was ever wanted there.
func Document(ctx context.Context, conn *bus.Conn, at topology.ServerAddress) (*desiredv1.Document, error) {
	d, _, err := stored(ctx, conn, at)
	return d, err
}

// stored returns a server's document and its sequence in the stream; nil and 0 when nothing was ever wanted there.
func stored(ctx context.Context, conn *bus.Conn, at topology.ServerAddress) (*desiredv1.Document, uint64, error) {
	m, err := conn.DirectGet(ctx, topology.Desired, topology.DesiredSubject(at))
	if fault.Is(err, fault.NotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	d, err := decode(m, at)
	return d, m.Sequence, err
}

// decode returns the document of a server that a message carries.
func decode(m bus.Message, at topology.ServerAddress) (*desiredv1.Document, error) {
	d := &desiredv1.Document{}
	if err := bus.Unmarshal(m, d); err != nil {
		return nil, err
	}
	if d.GetServerId() != at.Server || d.GetCell() != at.Cell {
		return nil, fault.New(fault.Invalid, "the document is for %s.%s", d.GetCell(), d.GetServerId())
	}
	return d, nil
}
