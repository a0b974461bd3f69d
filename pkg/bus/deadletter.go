package bus

import (
	"context"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

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
