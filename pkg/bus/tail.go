package bus

import (
	"context"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
)

// The end of the ledger is not read, it is pushed: the ledger announces each fact with its body when it is stored, and
// a fact that follows the last one is taken as it comes. A direct get of it would cost the bus six more headers and a
// second way across the accounts, for each service. Where an announcement is missing, late or without its body, the
// replay reads by direct get, which is also what notices that the stream was replaced.

const (
	// newsWaiting and newsBytesWaiting bound the announcements that wait to be taken. When there are more, they are
	// dropped and the replay reads.
	newsWaiting      = 4096
	newsBytesWaiting = 16 << 20
	// headerSize is in announcements without their body.
	headerSize = "Nats-Msg-Size"
)

// Tail receives the announcements of the ledger and hands each one to every replay that listens. The services of one
// process share one, so that a fact crosses the bus to this process once and is parsed once.
type Tail struct {
	sub *nats.Subscription

	mu        sync.Mutex
	listening map[*news]bool
}

// NewTail subscribes to the announcements of the ledger. The connection carries them for each connection that has the
// Tail in its Options, and must outlive those; while it is away, their replays read the ledger once in replayPoll.
func (c *Conn) NewTail() (*Tail, error) {
	t := &Tail{listening: map[*news]bool{}}
	sub, err := c.nc.Subscribe(topology.TailSubject, t.put)
	if err == nil {
		t.sub = sub
		if err = sub.SetPendingLimits(newsWaiting, newsBytesWaiting); err == nil {
			err = c.nc.FlushTimeout(DefaultTimeout) // a fact that a replay does not read from now on is announced to it
		}
		if err != nil {
			_ = sub.Unsubscribe()
		}
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "subscribe to %s: %w", topology.TailSubject, err)
	}
	return t, nil
}

// put hands an announcement to all that listen, and blocks for none of them.
func (t *Tail) put(m *nats.Msg) {
	sequence, err := strconv.ParseUint(ofBus(m.Header, headerSequence), 10, 64)
	if err != nil {
		return
	}
	a := announcement{sequence: sequence}
	a.message, a.whole = announced(m)
	t.mu.Lock()
	defer t.mu.Unlock()
	for n := range t.listening {
		n.put(a)
	}
}

func (t *Tail) listen(n *news) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.listening[n] = true
}

func (t *Tail) leave(n *news) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.listening, n)
}

// announcement is what the ledger announced of a fact. Several replays read its message.
type announcement struct {
	sequence uint64
	message  Message
	whole    bool // message is the fact
}

// announced returns the message that an announcement carries, with its time in the stream. A bus that an earlier
// version set up announces without bodies.
func announced(m *nats.Msg) (Message, bool) {
	if m.Header.Get(headerSize) != "" {
		return Message{}, false
	}
	s, err := stored(m)
	return s, err == nil && s.Subject != "" && !s.Time.IsZero()
}

// news is the announcements that wait for one replay.
type news struct {
	added wakeup.Signal
	stop  func()

	mu      sync.Mutex
	waiting []announcement
	bytes   int
	dropped bool // some since the last take, because too many waited
}

func (n *news) put(a announcement) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.waiting) >= newsWaiting || n.bytes+len(a.message.Data) > newsBytesWaiting {
		n.dropped = true
		return
	}
	n.waiting, n.bytes = append(n.waiting, a), n.bytes+len(a.message.Data)
	n.added.Wake()
}

// take waits until something waits and returns all of it; nothing when ctx is done first. dropped reports that more was
// announced.
func (n *news) take(ctx context.Context) (waiting []announcement, dropped bool) {
	select {
	case <-n.added.C():
	case <-ctx.Done():
		return nil, false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	waiting, dropped = n.waiting, n.dropped
	n.waiting, n.bytes, n.dropped = nil, 0, false
	return waiting, dropped
}

// listenToNews begins to receive the announcements of the ledger.
func (r *replaying) listenToNews() error {
	n := &news{added: wakeup.New()}
	tail, own := r.conn.options.Tail, r.conn.options.Tail == nil
	if own {
		var err error
		if tail, err = r.conn.NewTail(); err != nil {
			return err
		}
	}
	tail.listen(n)
	n.stop = func() {
		tail.leave(n)
		if own {
			_ = tail.sub.Unsubscribe()
		}
	}
	r.news = n
	return nil
}

func (r *replaying) stopListening() {
	if r.news != nil {
		r.news.stop()
	}
}

// follow hands on messages as they are announced. It returns after replayPoll, and before when an announcement is not
// of the next message, so that the caller reads.
func (r *replaying) follow(ctx context.Context) error {
	until, cancel := context.WithTimeout(ctx, replayPoll)
	defer cancel()
	if r.news == nil {
		sleep(until, replayPoll/10)
		return ctx.Err()
	}
	for {
		chunk, behind := r.nextAnnounced(until)
		if err := r.handOn(chunk); err != nil {
			return err
		}
		if behind || until.Err() != nil {
			return ctx.Err()
		}
	}
}

// nextAnnounced waits for announcements and returns the messages of those that wait. behind reports that one of them
// was not of the next message, or that some were dropped.
func (r *replaying) nextAnnounced(ctx context.Context) (chunk []Message, behind bool) {
	waiting, behind := r.news.take(ctx)
	for _, a := range waiting {
		if a.sequence < r.next {
			continue // read already
		}
		r.known = max(r.known, a.sequence)
		if a.sequence > r.next || !a.whole {
			return chunk, true
		}
		chunk, r.next = append(chunk, a.message), a.sequence+1
	}
	return chunk, behind
}
