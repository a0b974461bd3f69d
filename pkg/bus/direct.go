package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// streamReader reads what the streams of the bus hold, and how far they reach.
type streamReader struct {
	session *session
	api     string // prefix of the JetStream API as this account sees it
}

// DirectGet reads the last message on one subject of a stream, without a consumer. It puts
// the subject into the request's own subject, because only that form can be restricted by
// permissions. The error is NotFound when the subject has no message.
func (r *streamReader) DirectGet(ctx context.Context, stream, subject string) (Message, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	m, err := r.session.request(ctx, &nats.Msg{Subject: r.api + ".DIRECT.GET." + stream + "." + subject})
	if err != nil {
		return Message{}, fmt.Errorf("read %s: %w", subject, err)
	}
	return stored(m)
}

// Everything is the filter for every message of a stream. The bus compares it with no subject. It compares any other
// filter with wildcards with each subject that the stream has, in each read: with millions of facts that takes seconds.
const Everything = ">"

// DirectGetFrom reads up to n messages from a place in a stream on, in order. filter may hold wildcards; see
// Everything.
// Fewer than n means that the replica that answered has no more now; one that lags behind may have fewer than the
// leader.
func (r *streamReader) DirectGetFrom(
	ctx context.Context, stream, filter string, from uint64, n int,
) ([]Message, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	body, err := json.Marshal(map[string]any{"seq": max(from, 1), "batch": n, "next_by_subj": filter})
	if err != nil {
		return nil, err
	}
	var out []Message
	err = r.directGetMany(ctx, stream, body, func(m *nats.Msg) (end bool, err error) {
		if status := statusOf(m.Header); status == "204" || status == "404" {
			return true, nil // the end of the batch, or nothing there at all
		}
		s, err := stored(m)
		out = append(out, s)
		return false, err
	})
	if err != nil {
		return nil, fmt.Errorf("read %s from %d: %w", stream, from, err)
	}
	return out, nil
}

// stored reads a message that came by direct get.
func stored(m *nats.Msg) (Message, error) {
	switch status := statusOf(m.Header); status {
	case "":
	case "404":
		return Message{}, fault.New(fault.NotFound, "no message")
	case "503":
		return Message{}, fault.New(fault.Unavailable, "no stream answers")
	default:
		return Message{}, fault.New(fault.Internal, "direct get: %s %s", status, m.Header.Get("Description"))
	}
	seq, err := strconv.ParseUint(ofBus(m.Header, headerSequence), 10, 64)
	if err != nil {
		return Message{}, fault.New(fault.Internal, "direct get answered without a sequence: %w", err)
	}
	at, _ := time.Parse(time.RFC3339Nano, ofBus(m.Header, headerTime))
	return Message{
		Subject: ofBus(m.Header, headerSubject), Header: m.Header, Data: m.Data, Sequence: seq, Time: at,
	}, nil
}

// DirectGetLast reads the last message of a stream on the subjects that match filter. The
// error is NotFound when no message matches.
func (r *streamReader) DirectGetLast(ctx context.Context, stream, filter string) (Message, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	body, err := json.Marshal(map[string]string{"last_by_subj": filter})
	if err != nil {
		return Message{}, err
	}
	m, err := r.session.request(ctx, &nats.Msg{Subject: r.api + ".DIRECT.GET." + stream, Data: body})
	if err != nil {
		return Message{}, fmt.Errorf("read the end of %s: %w", stream, err)
	}
	return stored(m)
}

// freshPause is the pause before a replica is asked again that does not reach far enough.
const freshPause = 20 * time.Millisecond

// DirectGetFresh reads the last message on each of some subjects, in order and without those that have none, from a
// replica that holds at least the sequence floor. Unlike DirectGet it proves that a message which is missing is
// missing: a replica that lags behind is asked again, and the error is Unavailable when it does not catch up in time.
func (r *streamReader) DirectGetFresh(
	ctx context.Context, stream string, floor uint64, subjects ...string,
) ([]Message, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	for {
		found, upTo, err := r.lastOf(ctx, stream, subjects)
		if err != nil || upTo >= floor {
			return found, err
		}
		select {
		case <-ctx.Done():
			return nil, fault.New(fault.Unavailable, "read %s: the replica that answers ends at %d, and %d is needed",
				stream, upTo, floor)
		case <-time.After(freshPause):
		}
	}
}

// lastOf reads the last message on each subject, and up to which sequence the replica that answered could look. Only
// an answer with a message says that, so the last message of the stream is asked for too.
func (r *streamReader) lastOf(ctx context.Context, stream string, subjects []string) ([]Message, uint64, error) {
	end, err := r.DirectGetLast(ctx, stream, ">")
	if fault.Is(err, fault.NotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	body, err := json.Marshal(map[string]any{"multi_last": append([]string{end.Subject}, subjects...)})
	if err != nil {
		return nil, 0, err
	}
	var found []Message
	upTo := uint64(0)
	err = r.directGetMany(ctx, stream, body, func(m *nats.Msg) (last bool, err error) {
		if statusOf(m.Header) == "204" {
			upTo, err = strconv.ParseUint(m.Header.Get("Nats-UpTo-Sequence"), 10, 64)
			return true, err
		}
		s, err := stored(m)
		if fault.Is(err, fault.NotFound) { // this replica does not reach the end that another one knows
			return true, nil
		}
		if err == nil && slices.Contains(subjects, s.Subject) {
			found = append(found, s)
		}
		return false, err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("read the last messages of %s: %w", stream, err)
	}
	return found, upTo, nil
}

// Part says which messages of a stream are read at once.
type Part struct {
	Filter string    // may hold wildcards; ">" matches every message at no cost
	From   uint64    // start at this sequence
	Since  time.Time // start at the first message that was stored then or later, instead of From
	Count  int       // end behind this many messages
	Bytes  int       // end behind the message with which the part reaches this size
}

// DirectGetPart reads messages of a stream in order, without a consumer, and reports whether more match now.
func (r *streamReader) DirectGetPart(
	ctx context.Context, stream string, p Part,
) (part []Message, more bool, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	request := map[string]any{"batch": p.Count, "max_bytes": p.Bytes, "next_by_subj": p.Filter}
	if p.Since.IsZero() {
		request["seq"] = max(p.From, 1)
	} else {
		request["start_time"] = p.Since.UTC()
	}
	body, err := json.Marshal(request)
	if err != nil {
		return nil, false, err
	}
	err = r.directGetMany(ctx, stream, body, func(m *nats.Msg) (end bool, err error) {
		if statusOf(m.Header) == "204" { // the end of the part
			pending, _ := strconv.ParseUint(m.Header.Get("Nats-Num-Pending"), 10, 64)
			more = pending > 0
			return true, nil
		}
		s, err := stored(m)
		if fault.Is(err, fault.NotFound) {
			return true, nil
		}
		part = append(part, s)
		return false, err
	})
	if err != nil {
		return nil, false, fmt.Errorf("read a part of %s: %w", stream, err)
	}
	return part, more, nil
}

// directGetMany asks a stream for several messages, and hands each answer to take until that is the end.
func (r *streamReader) directGetMany(
	ctx context.Context, stream string, body []byte, take func(*nats.Msg) (end bool, err error),
) error {
	once, done, explain := r.session.overLink(ctx)
	defer done()
	inbox := r.session.nc.NewInbox()
	sub, err := r.session.nc.SubscribeSync(inbox)
	if err != nil {
		return requestError(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := r.session.nc.PublishRequest(r.api+".DIRECT.GET."+stream, inbox, body); err != nil {
		return requestError(err)
	}
	for {
		m, err := sub.NextMsgWithContext(once)
		if err != nil {
			return requestError(explain(err))
		}
		if end, err := take(m); end || err != nil {
			return err
		}
	}
}
