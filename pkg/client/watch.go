package client

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
)

const (
	// awaitInterval is the longest pause between two looks while no fact arrives.
	awaitInterval = time.Second
	// settleAfterFact gathers the facts of a busy ledger into one look.
	settleAfterFact = 150 * time.Millisecond
)

// Await calls done until it reports true: at once, soon after new facts in the ledger, and every second. Without
// permission to hear of facts, every second is all. An error of kind Unavailable is retried; any other ends the wait
// and is returned. When ctx ends first, the error wraps context.Cause(ctx).
func (c *Client) Await(ctx context.Context, done func(context.Context) (bool, error)) error {
	bell, stop, err := c.listen(ctx)
	if err != nil {
		return err
	}
	defer stop()
	asking := context.WithValue(ctx, askedAgain{}, true)
	for {
		ended, err := done(asking)
		switch {
		case err == nil && ended:
			return nil
		case err != nil && ctx.Err() == nil && !fault.Is(err, fault.Unavailable):
			return err
		}
		cause := bell.wait(awaitInterval, settleAfterFact)
		if cause != nil && ctx.Err() == nil { // who may not hear of facts, such as an approver, asks every second
			cause = pause(ctx, awaitInterval)
		}
		if cause != nil {
			if fault.Is(err, fault.Unavailable) {
				return fmt.Errorf("%w (last error: %v)", cause, err)
			}
			return cause
		}
	}
}

// Progress is how far intents are, in the order in which they were named.
type Progress []*dispatcherv1.IntentProgress

// Ended reports whether nothing of any intent is still to come.
func (p Progress) Ended() bool {
	for _, one := range p {
		if !one.GetEnded() {
			return false
		}
	}
	return true
}

// intentsAtOnce is how many intents one request may name.
const intentsAtOnce = 100

// Progress returns how far intents are, in their order, with at most rows tasks of each kind for each of them. It asks
// about 100 at a time, and fails when one is not counted.
func (c *Client) Progress(ctx context.Context, rows uint32, intents ...string) (all Progress, err error) {
	for some := range slices.Chunk(intents, intentsAtOnce) {
		q := &dispatcherv1.GetIntentProgressRequest{IntentIds: some, Rows: rows}
		r, err := Call[*dispatcherv1.GetIntentProgressResponse](ctx, c, q)
		if err != nil {
			return nil, err
		}
		for _, one := range r.GetIntents() {
			if one.GetRefusal() != nil {
				return nil, fault.Refuse(fault.NotFound, one.GetRefusal())
			}
		}
		all = append(all, r.GetIntents()...)
	}
	return all, nil
}

// Watch iterates over the progress of intents until all have ended: at once, soon after new facts, and every second.
// Each look costs the same, whatever the size of the intents. An error of kind Unavailable is yielded, and the loop may
// continue; after any other error, and after the end of ctx, the iteration ends.
func (c *Client) Watch(ctx context.Context, rows uint32, intents ...string) iter.Seq2[Progress, error] {
	return func(yield func(Progress, error) bool) {
		left := false
		err := c.Await(ctx, func(ctx context.Context) (bool, error) {
			p, err := c.Progress(ctx, rows, intents...)
			if err != nil && (ctx.Err() != nil || !fault.Is(err, fault.Unavailable)) {
				return false, err
			}
			left = !yield(p, err)
			return left || err == nil && p.Ended(), nil
		})
		if err != nil && !left {
			yield(nil, err)
		}
	}
}

// bell wakes on each new fact of the ledger and on each reconnect. A ring may be lost, so every wait has a limit.
type bell struct {
	signal wakeup.Signal
	ctx    context.Context // ends with the wait, or when the bus forbids to listen
}

// bells are those in use.
type bells struct {
	mu    sync.Mutex
	inUse map[*bell]struct{}
}

// wake wakes everything that waits: the rings of the time without a connection are lost.
func (s *bells) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for b := range s.inUse {
		b.signal.Wake()
	}
}

func (s *bells) add(b *bell) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inUse == nil {
		s.inUse = map[*bell]struct{}{}
	}
	s.inUse[b] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.inUse, b)
	}
}

// listen returns a bell that rings until stop is called.
func (c *Client) listen(ctx context.Context) (ringing *bell, stop func(), err error) {
	watched, release := c.denials.watch(ctx, topology.TailSubject)
	b := &bell{wakeup.New(), watched}
	unsubscribe, err := c.conn.Subscribe(topology.TailSubject, func(bus.Message) { b.signal.Wake() })
	if err != nil {
		release()
		return nil, nil, err
	}
	remove := c.bells.add(b)
	return b, func() { unsubscribe(); remove(); release() }, nil
}

// wait returns when the bell rings, after a rest that gathers more rings, or after limit. An error says why the wait
// ended early.
func (b *bell) wait(limit, rest time.Duration) error {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-b.ctx.Done():
		return context.Cause(b.ctx)
	case <-b.signal.C():
		return pause(b.ctx, rest)
	case <-t.C:
		return nil
	}
}
