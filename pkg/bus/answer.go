package bus

import (
	"context"
	"encoding/json"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/pace"
	"github.com/garrison-fleet/garrison/pkg/strict"
)

const (
	// requestsASecond is how many requests of one sender, which is its subject, and its address where the bus
	// tells it, are looked at. The others are dropped before they wait: a sender that gets no answer asks again.
	requestsASecond = 20
	// requestsWaiting bounds the requests of all senders that are admitted and wait for a slot.
	requestsWaiting     = 4096
	requestBytesWaiting = 16 << 20
	// requestsArriving bounds those that nothing looked at yet, which the client keeps in memory. A look is short and
	// waits for nothing, so that one sender's burst does not take the place of another's request.
	requestsArriving = 1 << 16
)

// Answer answers requests on subjects that name their senders, for Ask. Replicas in one group share
// them. f runs in a goroutine of its own, callsAtOnce at a time.
func Answer[Q, R proto.Message](
	c *Conn,
	subject, group string,
	f func(context.Context, string, Q) (R, error),
) (stop func(), err error) {
	turns := pace.New(requestsASecond, time.Second)
	return AnswerPaced(c, subject, group, f, func(sender string) bool {
		_, ok := turns.Take(sender)
		return ok
	})
}

// AnswerPaced is Answer for a caller that decides itself which requests are looked at: admitted reports that of a
// sender, which f's context names by SenderOf. The others are dropped.
func AnswerPaced[Q, R proto.Message](
	c *Conn,
	subject, group string,
	f func(context.Context, string, Q) (R, error),
	admitted func(sender string) bool,
) (stop func(), err error) {
	dropped := logs.NewPacer()
	return answerAdmitted(c, subject, group, f, func(m *nats.Msg) bool {
		ok := admitted(senderOf(m.Subject, addressIn(m.Header)))
		if !ok {
			dropped.Warn(c.log, m.Subject).Str(logs.Subject, m.Subject).Msg("too many requests of one sender, dropped")
		}
		return ok
	})
}

// SenderOf returns who sent the request on a subject that a handler of AnswerPaced answers: the subject, and the
// address where the bus tells it.
func SenderOf(ctx context.Context, subject string) string {
	text, _ := ctx.Value(senderKey{}).(string)
	return senderOf(subject, text)
}

func senderOf(subject, address string) string { return subject + " " + address }

const (
	// strangersASecond is how many requests AnswerAnybody looks at in a second, and addressASecond how many of one
	// address.
	strangersASecond = 400
	addressASecond   = 200
)

// AnswerAnybody is Answer on subjects that one sender can make any number of: what it looks at in a second is
// bounded for each address and in all, and the rest is dropped. Every replica answers, and the first answer counts.
func AnswerAnybody[Q, R proto.Message](
	c *Conn, subject string, f func(context.Context, string, Q) (R, error),
) (stop func(), err error) {
	byAddress, all := pace.New(addressASecond, time.Second), pace.New(strangersASecond, time.Second)
	dropped := logs.NewPacer()
	return answerAdmitted(c, subject, "", f, func(m *nats.Msg) bool {
		if _, ok := byAddress.Take(addressIn(m.Header)); ok {
			if _, ok = all.Take(subject); ok {
				return true
			}
		}
		dropped.Warn(c.log, subject).Str(logs.Subject, subject).Msg("too many requests, dropped")
		return false
	})
}

// AnswerOf is Answer on subjects that one sender can make any number of, where by reads the sender's name from
// the subject: what it looks at of each name in a second is bounded, and the rest is dropped.
func AnswerOf[Q, R proto.Message](
	c *Conn, subject string, f func(context.Context, string, Q) (R, error), by func(subject string) string, aSecond int,
) (stop func(), err error) {
	turns, dropped := pace.New(aSecond, time.Second), logs.NewPacer()
	return answerAdmitted(c, subject, "", f, func(m *nats.Msg) bool {
		name := by(m.Subject)
		_, ok := turns.Take(name)
		if !ok {
			dropped.Warn(c.log, name).Str(logs.Subject, m.Subject).Msg("too many requests of one sender, dropped")
		}
		return ok
	})
}

// answerAdmitted subscribes to requests, and answers those that are admitted. Without a group, every replica does.
func answerAdmitted[Q, R proto.Message](
	c *Conn, subject, group string, f func(context.Context, string, Q) (R, error), admitted func(*nats.Msg) bool,
) (stop func(), err error) {
	waiting, full := newRequests(), logs.NewPacer()
	sub, err := c.nc.QueueSubscribe(subject, group, func(m *nats.Msg) {
		if admitted(m) && !waiting.put(m) {
			full.Warn(c.log, subject).Str(logs.Subject, m.Subject).Msg("too many requests wait, dropped")
		}
	})
	if err == nil {
		err = sub.SetPendingLimits(requestsArriving, requestBytesWaiting)
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "answer %s: %w", subject, err)
	}
	ctx, end := context.WithCancel(context.Background())
	go waiting.each(ctx, func(m *nats.Msg) {
		answer := answerOne(m, f)
		if err := c.tooLarge(m.RespondMsg(answer), len(answer.Data)); err != nil {
			_ = m.RespondMsg(refusalMsg(err))
		}
	})
	c.settleSubscription()
	return func() { _ = sub.Unsubscribe(); end() }, nil
}

func answerOne[Q, R proto.Message](m *nats.Msg, f func(context.Context, string, Q) (R, error)) *nats.Msg {
	ctx, cancel := context.WithTimeout(withAddress(context.Background(), m.Header), callWithin)
	defer cancel()
	var zero Q
	q := zero.ProtoReflect().New().Interface().(Q)
	err := strict.Unmarshal(m.Data, q)
	if err != nil {
		err = fault.New(fault.Invalid, "read request: %w", err)
	}
	var data []byte
	if err == nil {
		var r R
		if r, err = f(ctx, m.Subject, q); err == nil {
			data, err = proto.Marshal(r)
		}
	}
	if err == nil {
		return &nats.Msg{Data: data}
	}
	return refusalMsg(err)
}

// requests are those that are admitted and wait for a slot: requestsWaiting at most, and with their headers
// requestBytesWaiting.
type requests struct {
	queue chan *nats.Msg
	bytes atomic.Int64
}

func newRequests() *requests { return &requests{queue: make(chan *nats.Msg, requestsWaiting)} }

// put reports whether there was room for a request. It never blocks.
func (r *requests) put(m *nats.Msg) bool {
	if size := int64(m.Size()); r.bytes.Add(size) <= requestBytesWaiting {
		select {
		case r.queue <- m:
			return true
		default:
		}
	}
	r.bytes.Add(-int64(m.Size()))
	return false
}

// each handles requests, callsAtOnce at a time, until ctx is done. What waits then is dropped.
func (r *requests) each(ctx context.Context, handle func(*nats.Msg)) {
	slots := make(chan struct{}, callsAtOnce)
	for {
		select {
		case <-ctx.Done():
			return
		case slots <- struct{}{}:
		}
		select {
		case <-ctx.Done():
			return
		case m := <-r.queue:
			r.bytes.Add(-int64(m.Size()))
			go func() {
				defer func() { <-slots }()
				handle(m)
			}()
		}
	}
}

// requestInfo is the header in which the bus describes the client of a request that comes from another account. The bus
// replaces what a client wrote there itself. It has an address only where the import shares it (topology.Export.Share).
const requestInfo = "Nats-Request-Info"

type (
	addressKey struct{}
	senderKey  struct{} // the address as the bus wrote it
)

// AddressOf returns the address from which the request came that a handler of Answer answers, as the bus saw it. It is
// the zero Addr when the bus does not tell it, as for a client in its own process.
func AddressOf(ctx context.Context) netip.Addr {
	a, _ := ctx.Value(addressKey{}).(netip.Addr)
	return a
}

func withAddress(ctx context.Context, h nats.Header) context.Context {
	ctx = context.WithValue(ctx, senderKey{}, addressIn(h))
	a, err := netip.ParseAddr(addressIn(h))
	if err != nil {
		return ctx
	}
	return context.WithValue(ctx, addressKey{}, a.Unmap().WithZone(""))
}

// addressIn returns the address in a header, or "". Several such headers are none: only one is of the bus.
func addressIn(h nats.Header) string {
	if len(h[requestInfo]) != 1 {
		return ""
	}
	var info struct {
		Host string `json:"host"`
	}
	_ = json.Unmarshal([]byte(h.Get(requestInfo)), &info)
	return info.Host
}
