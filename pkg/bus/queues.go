package bus

import (
	"context"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/garrison-fleet/garrison/pkg/topology"
)

const (
	// workersOfOne bounds how many messages of one sender are handled at a time.
	workersOfOne = workers / 2
	// bytesOfOne bounds how many bytes these have together, as bytesPerActor does with requests.
	bytesOfOne = bytesPerActor
	// bytesOfAll bounds how many bytes are held of a stream that keeps all messages: MaxAckPending alone would allow
	// 256 MiB of the largest intents.
	bytesOfAll = 32 << 20
	// burstOfOne and rateOfOne bound how many messages of a server are handled: that many at once,
	// and then that many a second. No server has that much to report.
	burstOfOne = 1000
	rateOfOne  = 100
	// idleSenders bounds the senders that are remembered although nothing of them waits.
	idleSenders = 1024
)

// queued is a message as far as queues look at it.
type queued interface {
	Subject() string
	Size() int // of its body
}

// queues holds the messages of a consumer that wait for a worker: a queue for each sender, which are
// served in turn, so that a message waits for its own sender's messages and not for all others'.
// A sender is a server or a person; see topology.SenderOf.
//
// put never blocks. What waits is bounded by what the bus delivers before it is settled,
// topology.MaxAckPending and, of one subject, by what the stream keeps of it: a message above
// that pushes out the oldest one, which the stream has discarded, too. Where the stream bounds what it
// keeps of a sender, the sender is paced as well.
type queues[M queued] struct {
	kept int // of one subject; 0 means all

	mu      sync.Mutex
	wake    sync.Cond
	senders map[string]*sender[M]
	turns   []*sender[M]    // those with a message that a worker may take, the next one first
	busy    map[string]bool // subjects with a message that is being handled

	bytes    int // of all that waits or is handled
	forgetAt int // how many senders there are when idle ones are forgotten
}

type sender[M queued] struct {
	waiting []M           // in the order in which they were delivered
	running int           // workers that handle one of its messages
	bytes   int           // of these messages
	inTurn  bool          // it is in turns
	paced   bool          // it is not in turns until it may go on
	pace    *rate.Limiter // nil for a sender that is not paced
}

// idle reports whether nothing of the sender is remembered that matters.
func (s *sender[M]) idle() bool {
	return s.running == 0 && len(s.waiting) == 0 && (s.pace == nil || s.pace.Tokens() >= burstOfOne)
}

func newQueues[M queued](kept int) *queues[M] {
	q := &queues[M]{kept: kept, senders: map[string]*sender[M]{}, busy: map[string]bool{}, forgetAt: idleSenders}
	q.wake.L = &q.mu
	return q
}

// put adds a message, and returns the one that it pushes out, or the zero value.
func (q *queues[M]) put(m M) (pushedOut M) {
	q.mu.Lock()
	defer q.mu.Unlock()
	name := topology.SenderOf(m.Subject())
	s := q.senders[name]
	if s == nil {
		s = q.newSender()
		q.senders[name] = s
	}
	s.waiting = append(s.waiting, m)
	q.bytes += m.Size()
	if q.kept > 0 && len(s.waiting) > q.kept {
		pushedOut, s.waiting = s.waiting[0], s.waiting[1:]
		q.bytes -= pushedOut.Size()
	}
	q.line(s)
	return pushedOut
}

// newSender returns a sender, and forgets those that are idle when there are many.
func (q *queues[M]) newSender() *sender[M] {
	if len(q.senders) >= q.forgetAt {
		maps.DeleteFunc(q.senders, func(_ string, s *sender[M]) bool { return s.idle() })
		q.forgetAt = 2*len(q.senders) + idleSenders
	}
	if q.kept == 0 {
		return &sender[M]{}
	}
	return &sender[M]{pace: rate.NewLimiter(rateOfOne, burstOfOne)}
}

// line puts a sender behind all others in turn, when a worker may take its next message.
func (q *queues[M]) line(s *sender[M]) {
	if s.inTurn || s.paced || len(s.waiting) == 0 || s.running >= workersOfOne || q.busy[s.waiting[0].Subject()] ||
		s.bytes > 0 && s.bytes+s.waiting[0].Size() > bytesOfOne {
		return
	}
	if s.pace != nil && s.pace.Tokens() < 1 {
		s.paced = true
		time.AfterFunc(time.Second/rateOfOne, func() { q.unpace(s) })
		return
	}
	s.inTurn = true
	q.turns = append(q.turns, s)
	q.wake.Signal()
}

// unpace lets a sender go on that had to wait.
func (q *queues[M]) unpace(s *sender[M]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s.paced = false
	q.line(s)
}

// take waits for a message, until ctx is done. After the message was handled the caller calls done with it.
func (q *queues[M]) take(ctx context.Context) (M, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.turns) == 0 && ctx.Err() == nil {
		q.wake.Wait()
	}
	if ctx.Err() != nil {
		var none M
		return none, false
	}
	s := q.turns[0]
	q.turns = q.turns[1:]
	m := s.waiting[0]
	s.waiting = s.waiting[1:]
	q.busy[m.Subject()] = true
	s.running++
	s.bytes += m.Size()
	if s.pace != nil {
		s.pace.Allow()
	}
	s.inTurn = false
	q.line(s)
	return m, true
}

// done lets the next message of the same subject be handled.
func (q *queues[M]) done(m M) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.busy, m.Subject())
	name := topology.SenderOf(m.Subject())
	s := q.senders[name]
	s.running--
	s.bytes -= m.Size()
	q.bytes -= m.Size()
	if s.idle() {
		delete(q.senders, name)
	}
	q.line(s)
}

// full reports whether so much is held that no further message should be requested. A stream that keeps little of a
// sender never fills it: there one sender would hold up the others.
func (q *queues[M]) full() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.kept == 0 && q.bytes > bytesOfAll
}

// interrupt wakes everything that waits in take, after its context is done.
func (q *queues[M]) interrupt() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wake.Broadcast()
}

// empty removes and returns everything that waits.
func (q *queues[M]) empty() (all []M) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, s := range q.senders {
		for _, m := range s.waiting {
			q.bytes -= m.Size()
		}
		all = append(all, s.waiting...)
		s.waiting, s.inTurn = nil, false
	}
	q.turns = nil
	return all
}
