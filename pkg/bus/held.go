package bus

import (
	"context"
	"sync"
	"time"

	"github.com/garrison-fleet/garrison/pkg/topology"
)

// holdFor bounds how long a message is kept from being delivered again, so that a worker that
// hangs does not keep it indefinitely.
const holdFor = 5 * time.Minute

// held is the messages of a consumer that this process has and has not settled. While the
// process lives it tells the bus that they are in progress, whether a handler runs or they
// wait for one, so that none is delivered again, to another replica or behind a newer
// message on its subject. What a process held that was killed is delivered again after
// topology.AckWait.
type held struct {
	mu   sync.Mutex
	msgs map[place]holding
}

// place tells a stream's messages apart, also when the stream lost its end and stored
// others in its place.
type place struct {
	sequence uint64
	stored   int64
}

type holding struct {
	msg   *delivery
	since time.Time
}

func newHeld() *held { return &held{msgs: map[place]holding{}} }

func placeOf(m *delivery) place { return place{m.sequence, m.stored.UnixNano()} }

// take notes a message that was delivered. It reports whether the message is new here: one
// that is held already is not handled a second time.
func (h *held) take(m *delivery) bool {
	at := placeOf(m)
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, again := h.msgs[at]; again {
		return false
	}
	h.msgs[at] = holding{m, time.Now()}
	return true
}

// release forgets a message that is about to be settled.
func (h *held) release(m *delivery) {
	h.mu.Lock()
	delete(h.msgs, placeOf(m))
	h.mu.Unlock()
}

// keep tells the bus of what is held until ctx is done. What it cannot tell, because the bus
// is away, it tells the next time.
func (h *held) keep(ctx context.Context) {
	every := topology.AckWait / 3
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for _, m := range h.between(now.Add(-holdFor), now.Add(-every/2)) {
				_ = m.inProgress()
			}
		}
	}
}

// between returns the messages that were taken after one time and before another.
func (h *held) between(after, before time.Time) []*delivery {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []*delivery
	for _, m := range h.msgs {
		if m.since.After(after) && m.since.Before(before) {
			out = append(out, m.msg)
		}
	}
	return out
}
