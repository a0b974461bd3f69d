package bus

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// Growth moves every stream from the bus of one server to a cluster, with all messages, sequences, times and consumers.
//
// Guarantees:
//
//  1. A stream takes no more messages on the old bus before it is copied, and never again after Run succeeded. So what
//     either bus acknowledges is in the cluster, and there are never two ledgers.
//  2. Run that fails, and can still reach the old bus, lets it take messages again. Run again after a process that was
//     killed begins anew, or returns at once when the move is complete.
//  3. It deletes only streams in the cluster that a Run that did not end made there.
type Growth struct {
	From, To *Streams
	Want     topology.Bus // of the cluster
	Say      func(format string, args ...any)
}

// Grown is what a move took.
type Grown struct {
	Already   bool // it was complete before
	Messages  uint64
	Bytes     int64         // of the snapshots
	WritesOff time.Duration // how long neither bus took intents and facts
}

const (
	// takeBackWithin bounds how long it takes to let the old bus take messages again after a failure.
	takeBackWithin = 30 * time.Second
	replicaEvery   = 50 * time.Millisecond
	// askWithin is how long the cluster has for an answer before it is asked again.
	askWithin = 2 * time.Second
)

// Run moves the streams. BLOBS comes first: it may be large, and while it moves nothing but the import of images waits.
func (g Growth) Run(ctx context.Context) (done Grown, err error) {
	b, err := g.look(ctx)
	if err != nil {
		return done, err
	}
	if b.moved {
		return Grown{Already: true}, g.leave(ctx)
	}
	have := b.have
	if err := g.clear(ctx, b.leftovers); err != nil {
		return done, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.takeBack(have))
		}
	}()
	blobs, rest := split(topology.Streams(g.Want.Replicas))
	if err := g.move(ctx, &done, have, blobs); err != nil {
		return done, err
	}
	began := time.Now()
	if err := g.move(ctx, &done, have, rest...); err != nil {
		return done, err
	}
	if err := g.complete(ctx, have); err != nil {
		return done, err
	}
	done.WritesOff = time.Since(began)
	return done, nil
}

// split returns the stream that is copied first, and the others.
func split(all []jetstream.StreamConfig) (blobs jetstream.StreamConfig, rest []jetstream.StreamConfig) {
	for _, s := range all {
		if s.Name == topology.Blobs {
			blobs = s
		} else {
			rest = append(rest, s)
		}
	}
	return blobs, rest
}

// hasMoved reports whether the cluster's ledger is complete, so that services may write there.
func (g Growth) hasMoved(ctx context.Context) (bool, error) {
	s, err := g.To.js.Stream(ctx, topology.Ledger)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return false, nil
	}
	return err == nil && topology.HasMoved(s.CachedInfo().Config), err
}

// move fences streams of the old bus, all of them first, and copies them.
func (g Growth) move(
	ctx context.Context, done *Grown, have map[string]*jetstream.StreamInfo, streams ...jetstream.StreamConfig,
) error {
	for _, s := range streams {
		if _, err := g.From.js.UpdateStream(ctx, topology.Fenced(have[s.Name].Config)); err != nil {
			return fmt.Errorf("stop writes to stream %s of the old bus: %w", s.Name, err)
		}
	}
	for _, s := range streams {
		if err := g.From.drained(ctx, s.Name); err != nil {
			return err
		}
	}
	var copies errgroup.Group
	var mu sync.Mutex
	for _, want := range streams {
		copies.Go(func() error {
			began := time.Now()
			want.Metadata = topology.Unmarked(have[want.Name].Config.Metadata) // a restored ledger has old marks
			state, n, err := g.From.copyTo(ctx, g.To, want)
			if err == nil {
				err = g.whole(ctx, want.Name, state)
			}
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			done.Messages += state.Msgs
			done.Bytes += n
			g.Say("stream %s: %d messages up to %d, %.1f s", want.Name, state.Msgs, state.LastSeq,
				time.Since(began).Seconds())
			return nil
		})
	}
	return copies.Wait() // all end: what failed is taken back behind them
}

// drained waits until a fenced stream has stored or refused what it received before: the bus takes the messages of a
// stream in order. The one that follows them carries a guard that never holds, so it is refused and not stored.
func (s *Streams) drained(ctx context.Context, stream string) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	m := nats.NewMsg(topology.FencedSubject(stream))
	m.Header.Set(nats.ExpectedLastSeqHdr, strconv.FormatUint(math.MaxInt64, 10))
	answer, err := s.conn.nc.RequestMsgWithContext(ctx, m)
	if err != nil {
		return fmt.Errorf("wait for what stream %s received: %w", stream, requestError(err))
	}
	if _, err := parseAck(answer.Data); !fault.Is(err, fault.Conflict) {
		return fault.New(fault.Unavailable, "wait for what stream %s received: %v", stream, err)
	}
	return nil
}

// whole waits until a copied stream is there on every replica, and compares it with the state of its snapshot.
func (g Growth) whole(ctx context.Context, name string, want jetstream.StreamState) error {
	return untilReady(ctx, func(ctx context.Context) error {
		s, err := g.To.js.Stream(ctx, name)
		switch {
		case err != nil:
			return fmt.Errorf("look at stream %s of the cluster: %w", name, err)
		case !current(s.CachedInfo(), g.Want.Replicas):
			return fault.New(fault.Unavailable, "a replica of stream %s in the cluster is behind", name)
		}
		is := s.CachedInfo().State
		fewer := is.Msgs != want.Msgs && s.CachedInfo().Config.MaxAge == 0 // others may be too old by now
		if fewer || is.LastSeq != want.LastSeq {
			return fault.New(fault.Internal, "stream %s has %d messages up to %d in the cluster, %d up to %d in its "+
				"snapshot", name, is.Msgs, is.LastSeq, want.Msgs, want.LastSeq)
		}
		return nil
	})
}

// untilReady asks again while the servers of a cluster elect leaders: a request that meets none is never answered.
func untilReady(ctx context.Context, ask func(context.Context) error) error {
	for {
		once, cancel := context.WithTimeout(ctx, askWithin)
		err := ask(once)
		cancel()
		if err == nil || ctx.Err() != nil || !NotReady(err) {
			return err
		}
		sleep(ctx, replicaEvery)
	}
}

// current reports whether every replica of a stream has all of it.
func current(s *jetstream.StreamInfo, replicas int) bool {
	if s.Cluster == nil || s.Cluster.Leader == "" {
		return replicas == 1
	}
	n := 1
	for _, r := range s.Cluster.Replicas {
		if r.Current && !r.Offline {
			n++
		}
	}
	return n >= replicas
}

// complete compares the cluster with the old bus and the topology. Last, it marks the ledger as moved, first in the
// cluster.
func (g Growth) complete(ctx context.Context, have map[string]*jetstream.StreamInfo) error {
	if err := untilReady(ctx, func(ctx context.Context) error { return g.sameEnds(ctx, have) }); err != nil {
		return err
	}
	if err := untilReady(ctx, func(ctx context.Context) error { return g.To.Provision(ctx, g.Want) }); err != nil {
		return err
	}
	was := have[topology.Ledger]
	err := untilReady(ctx, func(ctx context.Context) error {
		s, err := g.To.js.Stream(ctx, topology.Ledger)
		if err != nil {
			return err
		}
		is, origin := s.CachedInfo(), topology.Origin(was.Config.Metadata, was.Created)
		if _, err := g.To.js.UpdateStream(ctx, topology.Moved(is.Config, is.Created, origin)); err != nil {
			return fmt.Errorf("mark the ledger as moved: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return g.leave(ctx)
}

// leave records on the old bus that the cluster has the ledger, so that no other cluster gets it.
func (g Growth) leave(ctx context.Context) error {
	return untilReady(ctx, func(ctx context.Context) error {
		s, err := g.From.js.Stream(ctx, topology.Ledger)
		if err != nil {
			return fmt.Errorf("look at the ledger of the old bus: %w", err)
		}
		is := s.CachedInfo().Config
		if topology.HasMovedAway(is) {
			return nil
		}
		if _, err := g.From.js.UpdateStream(ctx, topology.MovedAway(is, time.Now())); err != nil {
			return fmt.Errorf("mark the ledger of the old bus as left: %w", err)
		}
		return nil
	})
}

// sameEnds returns a Conflict when a stream does not end in the cluster where it ends on the old bus.
func (g Growth) sameEnds(ctx context.Context, have map[string]*jetstream.StreamInfo) error {
	for name := range have {
		old, err := g.From.conn.lastSequence(ctx, name)
		if err != nil {
			return err
		}
		end, err := g.To.conn.lastSequence(ctx, name)
		if err != nil {
			return err
		}
		if old != end {
			return fault.New(fault.Conflict, "stream %s ends at %d on the old bus and at %d in the cluster: run this "+
				"again", name, old, end)
		}
	}
	return nil
}

// takeBack deletes what was copied and lets the old bus take messages again. It changes nothing when the cluster may
// be complete.
func (g Growth) takeBack(have map[string]*jetstream.StreamInfo) error {
	ctx, cancel := context.WithTimeout(context.Background(), takeBackWithin)
	defer cancel()
	var moved bool
	err := untilReady(ctx, func(ctx context.Context) (err error) { moved, err = g.hasMoved(ctx); return err })
	switch {
	case moved:
		return nil
	case err != nil:
		return fmt.Errorf("the cluster cannot be asked whether it has the ledger, so the old bus takes no writes; "+
			"run this again: %w", err)
	}
	for _, want := range topology.Streams(1) {
		err := untilReady(ctx, func(ctx context.Context) error {
			err := g.To.js.DeleteStream(ctx, want.Name)
			if errors.Is(err, jetstream.ErrStreamNotFound) {
				return nil
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("delete stream %s of the cluster: %w", want.Name, err)
		}
		want.Metadata = have[want.Name].Config.Metadata
		err = untilReady(ctx, func(ctx context.Context) error {
			_, err := g.From.js.UpdateStream(ctx, want)
			return err
		})
		if err != nil {
			return fmt.Errorf("let the old bus take writes to stream %s again: %w", want.Name, err)
		}
	}
	return nil
}
