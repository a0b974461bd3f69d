package bus

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
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
	data, err := proto.Marshal(q)
	if err != nil {
		return zero, fault.New(fault.Internal, "write request: %w", err)
	}
	answer, err := send(ctx, c, subject, Encoded{Data: data}, unanswered)
	if err != nil && !errors.Is(err, ErrDryRun) {
		return zero, err
	}
	r := zero.ProtoReflect().New().Interface().(R)
	if err := proto.Unmarshal(answer, r); err != nil {
		return zero, fault.New(fault.Internal, "read answer on %s: %w", subject, err)
	}
	return r, err
}

// Encoded is a message of the contract, in protobuf or in JSON.
type Encoded struct {
	Data []byte
	JSON bool
}

// send sends an encoded request and returns the answer in the same encoding, with ErrDryRun when it says so.
func send(
	ctx context.Context, c *Conn, subject string, q Encoded, unanswered func(error) error,
) ([]byte, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	ask := &nats.Msg{Subject: subject, Data: q.Data, Header: headerOf(ctx, q.JSON)}
	m, err := c.nc.RequestMsgWithContext(ctx, ask)
	if err != nil {
		return nil, unanswered(err)
	}
	if err := refusedBy(m.Header, m.Data, q.JSON); err != nil {
		return nil, err
	}
	if m.Header.Get(headerDryRun) != "" {
		return m.Data, ErrDryRun
	}
	return m.Data, nil
}

// headerOf returns what a context says about its calls, or nil.
func headerOf(ctx context.Context, json bool) nats.Header {
	h := nats.Header{}
	id, _ := ctx.Value(requestID{}).(string)
	why, _ := ctx.Value(note{}).(string)
	if id+why != "" {
		h[ledger.HeaderRequest], h[ledger.HeaderNote] = []string{id}, []string{why}
	}
	if json {
		h[contentType] = []string{typeJSON}
	}
	if IsDryRun(ctx) {
		h[headerDryRun] = []string{"1"}
	}
	if len(h) == 0 {
		return nil
	}
	return h
}

// rollCallMost bounds the answers to one roll call.
const rollCallMost = 256

// AnswerEach answers requests on a subject, for AskEach. Every process that calls it answers each of them.
func AnswerEach[R proto.Message](c *Conn, subject string, f func() R) (stop func(), err error) {
	sub, err := c.nc.Subscribe(subject, func(m *nats.Msg) {
		if data, err := proto.Marshal(f()); err == nil {
			_ = m.Respond(data) // the caller counts the answers
		}
	})
	if err != nil {
		return nil, fault.New(fault.Unavailable, "answer %s: %w", subject, err)
	}
	c.settleSubscription()
	return func() { _ = sub.Unsubscribe() }, nil
}

// AskEach sends a request to every process that answers on a subject, and returns what arrives until ctx is done.
func AskEach[R proto.Message](ctx context.Context, c *Conn, subject string) ([]R, error) {
	inbox := c.nc.NewInbox()
	sub, err := c.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, requestError(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := c.nc.PublishRequest(subject, inbox, nil); err != nil {
		return nil, requestError(err)
	}
	var out []R
	for len(out) < rollCallMost {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			break // the time is over
		}
		var zero R
		r := zero.ProtoReflect().New().Interface().(R)
		if len(m.Data) > 0 && proto.Unmarshal(m.Data, r) == nil {
			out = append(out, r)
		}
	}
	return out, nil
}
