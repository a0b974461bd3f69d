package bus

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// replayPull is how many messages one pull asks for (5,000 was fastest when measured).
	replayPull = 5000
	// replayChunk is how many messages are handed on at once while there are more.
	replayChunk = 512
)

// Replay hands a stream's messages to f in chunks, in order, from a place on, and keeps
// following until ctx is done, f fails or the stream's consumer breaks, as it does when the
// bus is started anew. A message that is missing, also the first, is an error. Who calls it
// again goes on behind the last message that f took. f owns the slice.
//
// The consumer is a plain one and not the client's ordered one. That one makes itself again
// when the bus is back, and one that is stopped right then may be waited for without end
// (nats.go v1.55.0); what follows the ledger begins anew at that very moment.
func (c *Conn) Replay(ctx context.Context, stream string, from uint64, f func([]Message) error) error {
	return c.replayFrom(ctx, replaying{stream: stream, from: from, take: f})
}

// ReplayOverGaps is Replay of a stream that is known to lack messages: it goes on behind
// those that are missing.
func (c *Conn) ReplayOverGaps(ctx context.Context, stream string, from uint64, f func([]Message) error) error {
	return c.replayFrom(ctx, replaying{stream: stream, from: from, take: f, gaps: true})
}

// replaying is one replay of a stream.
type replaying struct {
	stream string
	from   uint64
	take   func([]Message) error
	gaps   bool // go on behind messages that are missing
}

func (c *Conn) replayFrom(ctx context.Context, r replaying) error {
	err := c.replay(ctx, r)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("replay %s from %d: %w", r.stream, r.from, err)
	}
	return nil
}

func (c *Conn) replay(ctx context.Context, r replaying) error {
	bind, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	config := jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverAllPolicy, AckPolicy: jetstream.AckNonePolicy,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Minute,
	}
	if r.from > 1 {
		config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, r.from
	}
	consumer, err := c.js.CreateConsumer(bind, r.stream, config)
	if err != nil {
		return err
	}
	it, err := consumer.Messages(jetstream.PullMaxMessages(replayPull))
	if err != nil {
		return err
	}
	defer it.Stop()
	return r.collect(ctx, it)
}

// collect gathers what the iterator gives into chunks. A chunk ends when it is full or nothing more waits.
func (r replaying) collect(ctx context.Context, it jetstream.MessagesContext) error {
	next := max(r.from, 1)
	until := jetstream.NextContext(ctx)
	chunk := make([]Message, 0, replayChunk)
	for delivered := uint64(1); ; delivered++ {
		m, err := it.Next(until)
		if err != nil {
			return err
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if meta.Sequence.Consumer != delivered { // nothing here is delivered twice
			return fmt.Errorf("messages before %d were lost on the way", meta.Sequence.Stream)
		}
		if meta.Sequence.Stream != next && !r.gaps {
			return fmt.Errorf("gap: want sequence %d, have %d", next, meta.Sequence.Stream)
		}
		next = meta.Sequence.Stream + 1
		chunk = append(chunk, Message{Subject: m.Subject(), Header: m.Headers(), Data: m.Data(), Sequence: meta.Sequence.Stream, Time: meta.Timestamp})
		if len(chunk) == replayChunk || meta.NumPending == 0 {
			if err := r.take(chunk); err != nil {
				return err
			}
			chunk = make([]Message, 0, replayChunk)
		}
	}
}
