package bus

import (
	"context"

	"google.golang.org/protobuf/proto"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// Ask sends a request on a subject that is not a service's method and waits for the
// answer. Errors keep the kind and refusal that were answered.
func Ask[R proto.Message](ctx context.Context, c *Conn, subject string, q proto.Message) (R, error) {
	var zero R
	ctx, cancel := bounded(ctx)
	defer cancel()
	data, err := proto.Marshal(q)
	if err != nil {
		return zero, fault.New(fault.Internal, "write request: %w", err)
	}
	m, err := c.nc.RequestWithContext(ctx, subject, data)
	if err != nil {
		return zero, requestError(err)
	}
	if code := m.Header.Get(micro.ErrorCodeHeader); code != "" {
		return zero, answeredError(fault.ParseKind(code), m.Header.Get(micro.ErrorHeader), m.Data)
	}
	r := zero.ProtoReflect().New().Interface().(R)
	if err := proto.Unmarshal(m.Data, r); err != nil {
		return zero, fault.New(fault.Internal, "read answer: %w", err)
	}
	return r, nil
}

// Answer answers requests on a subject, for Ask. Replicas in one group share them. f runs in a goroutine of its own, callsAtOnce at a time.
func Answer[Q, R proto.Message](c *Conn, subject, group string, f func(context.Context, string, Q) (R, error)) (stop func(), err error) {
	slots := make(chan struct{}, callsAtOnce)
	sub, err := c.nc.QueueSubscribe(subject, group, func(m *nats.Msg) {
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			_ = m.RespondMsg(answerOne(m, f))
		}()
	})
	if err != nil {
		return nil, fault.New(fault.Unavailable, "answer %s: %w", subject, err)
	}
	c.settleSubscription()
	return func() { _ = sub.Unsubscribe() }, nil
}

func answerOne[Q, R proto.Message](m *nats.Msg, f func(context.Context, string, Q) (R, error)) *nats.Msg {
	ctx, cancel := context.WithTimeout(context.Background(), callWithin)
	defer cancel()
	var zero Q
	q := zero.ProtoReflect().New().Interface().(Q)
	err := proto.Unmarshal(m.Data, q)
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
	refusal := fault.RefusalOf(err)
	if refusal == nil {
		refusal = &apiv1.Refusal{Code: "REFUSED", Message: err.Error()}
	}
	data, _ = proto.Marshal(refusal)
	return &nats.Msg{Data: data, Header: nats.Header{
		micro.ErrorCodeHeader: {fault.KindOf(err).String()},
		micro.ErrorHeader:     {oneLine(err.Error())},
	}}
}
