package client

import (
	"context"
	"sync"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
)

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
