package bus

import (
	"context"
	"errors"
	"hash/maphash"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

const (
	// workers handle messages side by side; messages on one subject go to the same one.
	workers = 64
	// queuedPerWorker bounds what waits for one of them. It is what the bus delivers at most
	// before messages are settled, so that none waits unseen in the client's own queue.
	queuedPerWorker = topology.MaxAckPending
	// handleWithin bounds one run of a handler.
	handleWithin = 25 * time.Second
	// settleWithin bounds how long a bus that is away is waited for to settle a message.
	settleWithin = 30 * time.Second
	// drainWithin bounds how long stopping waits for messages that are on their way.
	drainWithin = time.Second
)

// Handler handles one message. It must be safe to run twice on the same message. Its
// error decides what becomes of the message; see settle.
type Handler func(ctx context.Context, m Message) error

// Consume hands the messages of a durable consumer to handle until ctx is done. When
// the bus goes away it waits for it.
func (c *Conn) Consume(ctx context.Context, from topology.Consumer, handle Handler) error {
	lanes, h := make([]chan jetstream.Msg, workers), newHeld()
	g, ctx := errgroup.WithContext(ctx)
	for i := range lanes {
		lanes[i] = make(chan jetstream.Msg, queuedPerWorker)
		g.Go(func() error { return c.work(ctx, from, lanes[i], h, handle) })
	}
	g.Go(func() error { h.keep(ctx); return nil })
	g.Go(func() error {
		for wait := 100 * time.Millisecond; ctx.Err() == nil; wait = min(2*wait, 5*time.Second) {
			started := time.Now()
			err := c.pull(ctx, from, lanes, h)
			if ctx.Err() != nil {
				return nil
			}
			c.log.Warn().Err(err).Str("consumer", from.Durable).Msg("consumer interrupted")
			if time.Since(started) > 10*time.Second {
				wait = 100 * time.Millisecond
			}
			sleep(ctx, wait)
		}
		return nil
	})
	err := g.Wait()
	for _, l := range lanes {
		giveBack(l) // what was put there while its worker stopped
	}
	return err
}

// pull fetches messages and puts each into its subject's lane, until something breaks.
func (c *Conn) pull(ctx context.Context, from topology.Consumer, lanes []chan jetstream.Msg, h *held) error {
	bind, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	consumer, err := c.js.Consumer(bind, from.Stream, from.Durable)
	if err != nil {
		return err
	}
	it, err := consumer.Messages(jetstream.PullMaxMessages(500))
	if err != nil {
		return err
	}
	defer it.Stop()
	// When stopping, what has come already is given back, below; a bus that is away is not waited for.
	last, done := context.WithCancel(context.WithoutCancel(ctx))
	defer done()
	stop := context.AfterFunc(ctx, func() {
		it.Drain()
		time.AfterFunc(drainWithin, done)
	})
	defer stop()
	for {
		m, err := it.Next(jetstream.NextContext(last))
		if errors.Is(err, jetstream.ErrNoHeartbeat) && c.nc.IsConnected() {
			continue // the iterator pulls again by itself
		}
		if err != nil {
			return err
		}
		if !h.take(m) {
			continue
		}
		select {
		case lanes[lane(m.Subject())] <- m:
		case <-ctx.Done():
			_ = m.Nak()
		}
	}
}

var seed = maphash.MakeSeed()

func lane(subject string) int { return int(maphash.String(seed, subject) % workers) }

func (c *Conn) work(ctx context.Context, from topology.Consumer, in <-chan jetstream.Msg, h *held, handle Handler) error {
	for {
		select {
		case <-ctx.Done():
			giveBack(in)
			return nil
		case m := <-in:
			msg, err := received(m)
			if err == nil {
				once, cancel := context.WithTimeout(ctx, handleWithin)
				err = handle(once, msg)
				cancel()
			}
			if ctx.Err() != nil {
				_ = m.Nak() // stopping: it is delivered again, to another replica or after the restart
				giveBack(in)
				return nil
			}
			h.release(m) // before it is settled: one that is put back may come again at once
			c.settle(ctx, from, m, msg, err)
		}
	}
}

// giveBack asks that what still waits in a lane is delivered again at once, and not
// only after topology.AckWait: a restart is then no pause.
func giveBack(in <-chan jetstream.Msg) {
	for {
		select {
		case m := <-in:
			_ = m.Nak()
		default:
			return
		}
	}
}

func received(m jetstream.Msg) (Message, error) {
	msg := Message{Subject: m.Subject(), Header: m.Headers(), Data: m.Data()}
	meta, err := m.Metadata()
	if err != nil {
		return msg, fault.New(fault.Internal, "metadata: %w", err)
	}
	msg.Sequence, msg.Time, msg.Delivered = meta.Sequence.Stream, meta.Timestamp, meta.NumDelivered
	return msg, nil
}

// settle decides what becomes of a message, from the handler's error alone.
func (c *Conn) settle(ctx context.Context, from topology.Consumer, m jetstream.Msg, msg Message, err error) {
	tired := msg.Delivered >= uint64(topology.MaxDeliver)
	var settled error
	switch {
	case err == nil:
		settled = c.tell(ctx, m.Ack)
	case fault.Is(err, fault.Invalid) || tired && !passing(err):
		c.log.Warn().Err(err).Str(logs.Subject, msg.Subject).Uint64(logs.Sequence, msg.Sequence).Msg("message quarantined")
		if settled = c.quarantine(ctx, from.Stream, msg, err); settled == nil {
			settled = c.tell(ctx, func() error { return m.TermWithReason(oneLine(err.Error())) })
		}
	default:
		e := c.log.Debug()
		if tired {
			e = c.log.Warn()
		}
		e.Err(err).Str(logs.Subject, msg.Subject).Uint64("delivered", msg.Delivered).Msg("message put back")
		settled = c.tell(ctx, func() error { return m.NakWithDelay(retryAfter(msg.Delivered)) })
	}
	if settled != nil && ctx.Err() == nil {
		c.log.Debug().Err(settled).Str(logs.Subject, msg.Subject).Msg("settle message") // it is delivered again
	}
}

// tell tells the bus what became of a message. While the bus is away it waits, as long as
// that helps: a handler fails most often because the bus went away, and a message that could
// not be put back would wait for topology.AckWait.
func (c *Conn) tell(ctx context.Context, send func() error) error {
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	for {
		err := send()
		if !errors.Is(err, nats.ErrReconnectBufExceeded) || c.WaitConnected(ctx) != nil {
			return err
		}
	}
}

// passing says that an error is no fault of the message: what it needs is away, or
// others were faster. Who published it was told that it is kept, so it is.
func passing(err error) bool {
	return fault.Is(err, fault.Unavailable) || fault.Is(err, fault.Conflict)
}

func retryAfter(delivered uint64) time.Duration {
	return min(50*time.Millisecond<<min(delivered, 10), 30*time.Second)
}

// quarantine keeps a message that cannot be handled, whole, with the reason.
func (c *Conn) quarantine(ctx context.Context, stream string, msg Message, cause error) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	q := &nats.Msg{Subject: topology.QuarantineSubject(stream), Data: msg.Data, Header: nats.Header{
		"Garrison-Subject":  {msg.Subject},
		"Garrison-Sequence": {strconv.FormatUint(msg.Sequence, 10)},
		"Garrison-Reason":   {oneLine(cause.Error())},
	}}
	_, err := c.publishRetrying(ctx, q)
	return err
}

// oneLine makes a text fit for a header.
func oneLine(s string) string {
	out := []rune(s)
	if len(out) > 500 {
		out = out[:500]
	}
	for i, r := range out {
		if r < ' ' {
			out[i] = ' '
		}
	}
	return string(out)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
