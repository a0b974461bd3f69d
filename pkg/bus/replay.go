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
	err := c.replay(ctx, stream, from, f)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("replay %s from %d: %w", stream, from, err)
	}
	return nil
}

func (c *Conn) replay(ctx context.Context, stream string, from uint64, f func([]Message) error) error {
	bind, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	config := jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverAllPolicy, AckPolicy: jetstream.AckNonePolicy,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Minute,
	}
	if from > 1 {
		config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, from
	}
	consumer, err := c.js.CreateConsumer(bind, stream, config)
	if err != nil {
		return err
	}
	it, err := consumer.Messages(jetstream.PullMaxMessages(replayPull))
	if err != nil {
		return err
	}
	defer it.Stop()
	return collect(ctx, it, max(from, 1), f)
}

// collect gathers what the iterator gives into chunks. A chunk ends when it is full or nothing more waits.
func collect(ctx context.Context, it jetstream.MessagesContext, next uint64, f func([]Message) error) error {
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
		if meta.Sequence.Stream != next {
			return fmt.Errorf("gap: want sequence %d, have %d", next, meta.Sequence.Stream)
		}
		next++
		chunk = append(chunk, Message{Subject: m.Subject(), Header: m.Headers(), Data: m.Data(), Sequence: meta.Sequence.Stream, Time: meta.Timestamp})
		if len(chunk) == replayChunk || meta.NumPending == 0 {
			if err := f(chunk); err != nil {
				return err
			}
			chunk = make([]Message, 0, replayChunk)
		}
	}
}
