package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

const (
	// replayBatch is how many messages one request asks for (see BenchmarkReplay).
	replayBatch = 5000
	// replayBytes bounds the messages of one request that are on their way.
	replayBytes = 8 << 20
	// replayChunk is how many messages are handed on at once.
	replayChunk = 512
	// replayPoll is how often the end of a stream is read by direct get: announcements may be lost.
	replayPoll = time.Second
	// replayLag is the first wait for a replica that does not have an announced message yet; it doubles, up to
	// replayPoll.
	replayLag = 2 * time.Millisecond
	// replayCheck is how often an idle replay checks that the stream is still the one that it began with.
	replayCheck = 10 * time.Second
	// replayShorter is how many such checks in a row must find that the stream of a cluster is shorter than what was
	// read: a new leader may be behind for a while, when its disk or its machine is busy.
	replayShorter = 4
)

// Replay hands a stream's messages to f in chunks, in order, from a place on, and keeps
// following until ctx is done, f fails or the bus disconnects. A missing message, also the
// first, is an error, and so is another stream in this one's place. To resume, call it
// again with the sequence after the last message that f took. f owns the slice.
//
// It reads by direct gets, and at the end of the ledger from its announcements (tail.go). It needs no consumer: a
// service that may create consumers may deliver to any subject of the streams' account. In a cluster a lagging replica
// may answer; then messages come later, never out of order.
func (c *Conn) Replay(ctx context.Context, stream string, from uint64, f func([]Message) error) error {
	r := replaying{conn: c, stream: stream, from: from, take: f}
	return r.run(ctx)
}

// ReplayOverGaps is Replay of a stream that is known to lack messages: it goes on behind
// those that are missing.
func (c *Conn) ReplayOverGaps(ctx context.Context, stream string, from uint64, f func([]Message) error) error {
	r := replaying{conn: c, stream: stream, from: from, take: f, gaps: true}
	return r.run(ctx)
}

// replaying is one replay of a stream.
type replaying struct {
	conn   *Conn
	stream string
	from   uint64
	take   func([]Message) error
	gaps   bool // go on behind messages that are missing

	next    uint64            // the next sequence to read
	ahead   *batch            // the request after the one that is being read, made already
	cut     bool              // the last batch was cut short by its bytes
	news    *news             // announcements; nil before the end was reached, and of a stream that announces nothing
	shorter int               // how many checks in a row found less than was read
	known   uint64            // the highest sequence that was announced
	stopped func(error) error // explains the end of the context
}

// run replays until ctx is done, and then returns nil.
func (r *replaying) run(ctx context.Context) error {
	err := r.untilDisconnect(ctx)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("replay %s: %w", r.stream, err)
	}
	return nil
}

// untilDisconnect replays until something ends it.
func (r *replaying) untilDisconnect(ctx context.Context) error {
	once, done, explain := r.conn.overLink(ctx)
	defer done()
	r.next, r.stopped = max(r.from, 1), explain
	begun, err := r.conn.Stream(once, r.stream)
	if err != nil {
		return err
	}
	defer r.stopListening()
	defer func() { r.ahead.drop() }()
	checked := time.Now()
	for wait := replayLag; ; {
		before := r.next
		more, err := r.readBatch(once)
		if err != nil {
			return r.stopped(err)
		}
		if more {
			wait = replayLag
			continue
		}
		if r.news == nil && r.stream == topology.Ledger {
			if err := r.listenToNews(); err != nil {
				return r.stopped(err)
			}
			continue // what was stored before is not announced
		}
		if time.Since(checked) > replayCheck {
			if err := r.sameStream(once, begun); err != nil {
				return r.stopped(err)
			}
			checked = time.Now()
		}
		if r.next <= r.known && r.next == before { // the replica that answered lags
			sleep(once, wait)
			wait = min(2*wait, replayPoll)
			continue
		}
		wait = replayLag
		if err := r.follow(once); err != nil {
			return r.stopped(err)
		}
	}
}

// batch is a request for messages. Each has an inbox of its own: the bus forgets a request to another account when its
// inbox goes.
type batch struct {
	from    uint64
	answers *nats.Subscription
}

func (b *batch) drop() {
	if b != nil {
		_ = b.answers.Unsubscribe()
	}
}

// ask requests messages from a sequence on.
func (r *replaying) ask(from uint64) (*batch, error) {
	body, err := json.Marshal(map[string]any{"seq": from, "batch": replayBatch, "max_bytes": replayBytes})
	if err != nil {
		return nil, err
	}
	inbox := r.conn.nc.NewInbox()
	answers, err := r.conn.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, requestError(err)
	}
	b := &batch{from, answers}
	if err := r.conn.nc.PublishRequest(r.conn.api+".DIRECT.GET."+r.stream, inbox, body); err != nil {
		b.drop()
		return nil, requestError(err)
	}
	return b, nil
}

// nextBatch returns the request for what follows, which may have been made ahead.
func (r *replaying) nextBatch() (*batch, error) {
	ahead := r.ahead
	r.ahead = nil
	if ahead != nil && ahead.from == r.next {
		return ahead, nil
	}
	ahead.drop()
	return r.ask(r.next)
}

// askAhead requests the batch behind the one that begins with a message, so that the bus reads it meanwhile.
func (r *replaying) askAhead(first *nats.Msg) (err error) {
	pending, err := strconv.ParseUint(ofBus(first.Header, headerPending), 10, 64)
	if err != nil || pending < replayBatch || r.gaps || r.cut {
		return nil //nolint:nilerr // it is an optimization
	}
	r.ahead, err = r.ask(r.next + replayBatch)
	return err
}

// readBatch hands on the messages of one request. more reports whether there are more at once.
func (r *replaying) readBatch(ctx context.Context) (more bool, err error) {
	now, err := r.nextBatch()
	if err != nil {
		return false, err
	}
	defer now.drop()
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(DefaultTimeout, cancel)
	defer silence.Stop()
	var chunk []Message
	for {
		m, err := now.answers.NextMsgWithContext(within)
		if within.Err() != nil && ctx.Err() == nil {
			err = context.DeadlineExceeded
		}
		if err != nil { // what came counts
			late := fmt.Errorf("await messages from %d: %w", r.next, answerError(ctx, err))
			return false, errors.Join(late, r.handOn(chunk))
		}
		if status := statusOf(m.Header); status == "204" || status == "404" {
			more := status == "204" && m.Header.Get(headerPending) != "0"
			r.cut = more && r.next-now.from < replayBatch
			return more, r.handOn(chunk)
		}
		if r.next == now.from {
			if err := r.askAhead(m); err != nil {
				return false, err
			}
		}
		s, err := r.read(m)
		if err != nil {
			return false, err
		}
		if chunk = append(chunk, s); len(chunk) == replayChunk {
			silence.Stop() // the time that the reader takes does not count
			if err := r.handOn(chunk); err != nil {
				return false, err
			}
			chunk = nil
			silence.Reset(DefaultTimeout)
		}
	}
}

func answerError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return requestError(err)
}

// read reads one message of a batch and checks that none is missing before it.
func (r *replaying) read(m *nats.Msg) (Message, error) {
	s, err := stored(m)
	if err != nil {
		return s, err
	}
	if s.Sequence != r.next && !r.gaps {
		return s, fmt.Errorf("gap: want sequence %d, have %d", r.next, s.Sequence)
	}
	// Each message names the one before it in its batch, so that one lost on the way is noticed also among gaps.
	last, err := strconv.ParseUint(ofBus(m.Header, headerLast), 10, 64)
	if err != nil {
		return s, fault.New(fault.Internal, "batch without Nats-Last-Sequence: %w", err)
	}
	if s.Sequence < r.next || last >= r.next {
		return s, fmt.Errorf("messages before %d were lost on the way", s.Sequence)
	}
	r.next = s.Sequence + 1
	return s, nil
}

// handOn hands messages to the reader, at most replayChunk at once: it may keep several chunks at a time.
func (r *replaying) handOn(messages []Message) error {
	for chunk := range slices.Chunk(messages, replayChunk) {
		if err := r.take(chunk); err != nil {
			return err
		}
	}
	return nil
}

// sameStream returns an error if the stream is not the one that the replay began with, or ends before it. One that was
// shorter and no longer is may hold other messages at the places that were read: the caller compares them.
func (r *replaying) sameStream(ctx context.Context, begun Stream) error {
	now, err := r.conn.Stream(ctx, r.stream)
	if err != nil {
		return err
	}
	if r.shorter++; now.LastSequence+1 >= r.next {
		if r.shorter > 1 {
			return fault.New(fault.Unavailable, "the stream was shorter than what was read for a while")
		}
		r.shorter = 0
	}
	isSettling := r.conn.ofSeveral() && r.shorter < replayShorter
	if !now.Created.Equal(begun.Created) || r.shorter > 0 && !isSettling {
		return fault.New(fault.Conflict,
			"the stream was replaced: it was created %v and ends at %d, want %v and at least %d",
			now.Created, now.LastSequence, begun.Created, r.next-1)
	}
	return nil
}
