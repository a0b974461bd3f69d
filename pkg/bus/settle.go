package bus

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// settle decides what becomes of a message, from the handler's error alone.
func (w *consuming) settle(ctx context.Context, m *delivery, msg Message, err error) {
	tired := msg.Delivered >= uint64(topology.MaxDeliver)
	var settled error
	switch {
	case err == nil:
		settled = w.acknowledge(ctx, m.ack)
	case fault.Is(err, fault.Invalid) || tired && !passing(err):
		if settled = w.bury(ctx, msg, err); settled == nil {
			settled = w.acknowledge(ctx, func() error { return m.term(oneLine(err.Error())) })
		}
	default:
		var e *zerolog.Event
		if tired {
			e = w.refusals.Warn(w.log, topology.SenderOf(msg.Subject))
		} else {
			e = w.log.Debug()
		}
		e.Err(err).Str(logs.Subject, msg.Subject).Uint64("delivered", msg.Delivered).Msg("message put back")
		settled = w.acknowledge(ctx, func() error { return m.nakWithDelay(retryAfter(msg.Delivered, err)) })
	}
	if settled != nil && ctx.Err() == nil {
		w.log.Debug().Err(settled).Str(logs.Subject, msg.Subject).Msg("settle message") // it is delivered again
	}
}

// acknowledge sends the outcome of a message to the bus. While the bus is disconnected it waits,
// for settleWithin: handlers fail most often because of a disconnect, and a message that was not
// settled is delivered again only after topology.AckWait.
func (w *consuming) acknowledge(ctx context.Context, send func() error) error {
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	for {
		err := send()
		if !errors.Is(err, nats.ErrReconnectBufExceeded) || w.WaitConnected(ctx) != nil {
			return err
		}
	}
}

// passing reports whether an error is not the fault of the message: a dependency is unavailable,
// or there was a concurrent update. The publisher has an acknowledgment, so the message is kept.
func passing(err error) bool {
	return fault.Is(err, fault.Unavailable) || fault.Is(err, fault.Conflict)
}

// retryAfter returns when a message is delivered again that a handler did not settle. What is passing passes soon, and
// a message was delivered also to processes that were killed, so that the wait for it stays short.
func retryAfter(delivered uint64, err error) time.Duration {
	longest := 30 * time.Second
	if passing(err) {
		longest = 2 * time.Second
	}
	return min(50*time.Millisecond<<min(delivered, 10), longest)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// bury stores a message that no handler could process as a dead letter, and logs it. Of a sender whose
// messages the stream bounds, no more are stored a minute than the stream of dead letters keeps of
// it: a server that sends nothing else would only overwrite its own. The others are counted in the log.
func (w *consuming) bury(ctx context.Context, msg Message, cause error) error {
	sender := topology.SenderOf(msg.Subject)
	if w.from.Kept() > 0 {
		if _, ok := w.letters.Take(sender); !ok {
			w.refusals.Warn(w.log, sender).Err(cause).Str(logs.Subject, msg.Subject).
				Uint64(logs.Sequence, msg.Sequence).Msg("message refused; this sender has enough dead letters")
			return nil
		}
	}
	w.refusals.Warn(w.log, sender).Err(cause).Str(logs.Subject, msg.Subject).
		Uint64(logs.Sequence, msg.Sequence).Msg("message moved to dead letters")
	return w.deadLetter(ctx, msg, cause)
}

// deadLetter stores a message, whole, with the reason.
func (w *consuming) deadLetter(ctx context.Context, msg Message, cause error) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	subject := topology.DeadLetterSubject(w.from.Stream, topology.SenderOf(msg.Subject))
	letter := &nats.Msg{Subject: subject, Data: msg.Data, Header: nats.Header{
		"Garrison-Subject":  {msg.Subject},
		"Garrison-Sequence": {strconv.FormatUint(msg.Sequence, 10)},
		"Garrison-Reason":   {oneLine(cause.Error())},
	}}
	_, err := w.publishRetrying(ctx, letter)
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
