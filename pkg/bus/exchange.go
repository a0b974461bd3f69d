package bus

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/pace"
	"github.com/garrison-fleet/garrison/pkg/strict"
)

// Ask sends a request on a subject that is not a service's method and waits for the
// answer. The error has the kind and the refusal of the answer.
func Ask[R proto.Message](ctx context.Context, c *Conn, subject string, q proto.Message) (R, error) {
	return exchange[R](ctx, c, subject, q, requestError)
}

// exchange sends a request and waits for the answer, for DefaultTimeout unless ctx has a deadline.
// unanswered turns the client's error into the one to return.
func exchange[R proto.Message](
	ctx context.Context, c *Conn, subject string, q proto.Message, unanswered func(error) error,
) (R, error) {
	var zero R
	ctx, cancel := bounded(ctx)
	defer cancel()
	data, err := proto.Marshal(q)
	if err != nil {
		return zero, fault.New(fault.Internal, "write request: %w", err)
	}
	ask := &nats.Msg{Subject: subject, Data: data}
	if id, ok := ctx.Value(requestID{}).(string); ok {
		ask.Header = nats.Header{ledger.HeaderRequest: {id}}
	}
	m, err := c.nc.RequestMsgWithContext(ctx, ask)
	if err != nil {
		return zero, unanswered(err)
	}
	if err := refusedBy(m.Header, m.Data); err != nil {
		return zero, err
	}
	r := zero.ProtoReflect().New().Interface().(R)
	if err := proto.Unmarshal(m.Data, r); err != nil {
		return zero, fault.New(fault.Internal, "read answer on %s: %w", subject, err)
	}
	return r, nil
}

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

// AnswerAnybody is Answer on subjects of which one sender can use as many as it likes: what it looks at in a second is
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

// AnswerOf is Answer on subjects of which one sender can use as many as it likes, where by reads the sender's name from
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

// refusalMsg returns the answer that carries an error.
func refusalMsg(err error) *nats.Msg {
	refusal := fault.RefusalOf(err)
	if refusal == nil {
		refusal = &apiv1.Refusal{Code: code.Refused, Message: err.Error()}
	}
	data, _ := proto.Marshal(refusal)
	if len(data) > longRefusal {
		data, _ = proto.Marshal(short(refusal))
	}
	return &nats.Msg{Data: data, Header: nats.Header{
		micro.ErrorCodeHeader: {fault.KindOf(err).String()},
		micro.ErrorHeader:     {oneLine(err.Error())},
	}}
}
