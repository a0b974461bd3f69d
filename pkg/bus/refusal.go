package bus

import (
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
)

// PublishRefusal sends an error where the other side waits for content; RefusedIn reads it there. It may be lost.
func (c *Conn) PublishRefusal(subject string, err error) error {
	m := refusalMsg(err)
	m.Subject = subject
	if err := c.nc.PublishMsg(m); err != nil {
		return fault.New(fault.Unavailable, "publish on %s: %w", subject, err)
	}
	return nil
}

// RefusedIn returns the error that a message carries instead of content, with its kind and refusal, or nil.
func RefusedIn(m Message) error { return refusedBy(m.Header, m.Data, false) }

func refusedBy(header nats.Header, data []byte, json bool) error {
	kind := header.Get(micro.ErrorCodeHeader)
	if kind == "" {
		return nil
	}
	return answeredError(fault.ParseKind(kind), header.Get(micro.ErrorHeader), data, json)
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

// tooLarge returns a refusal in place of an answer that the bus cannot carry, when that is why it could not be sent;
// otherwise nil. Without it the caller would wait for an answer until its time is up.
func (c *Conn) tooLarge(sent error, size int) error {
	if !errors.Is(sent, nats.ErrMaxPayload) {
		return nil
	}
	return fault.Refusef(fault.Invalid, code.AnswerTooLarge, "the answer has %d bytes, and the bus carries %d",
		size, c.nc.MaxPayload()).Try("a smaller part of it: --limit 10")
}

// longRefusal is the size from which on a refusal is shortened.
const longRefusal = 64 << 10

// short returns a refusal that always fits into a message.
func short(r *apiv1.Refusal) *apiv1.Refusal {
	out := proto.CloneOf(r)
	for _, text := range []*string{&out.Code, &out.Component, &out.Message, &out.Nearest, &out.Try} {
		*text = oneLine(*text)
	}
	return out
}

func answeredError(kind fault.Kind, text string, body []byte, json bool) error {
	var r apiv1.Refusal
	if err := unmarshal(json, body, &r); err != nil || r.Code == "" {
		return fault.New(kind, "%s", text)
	}
	return fault.Refuse(kind, &r)
}
