package bus

import (
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/garrison-fleet/garrison/pkg/fault"
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
func RefusedIn(m Message) error { return refusedBy(m.Header, m.Data) }

func refusedBy(header nats.Header, data []byte) error {
	kind := header.Get(micro.ErrorCodeHeader)
	if kind == "" {
		return nil
	}
	return answeredError(fault.ParseKind(kind), header.Get(micro.ErrorHeader), data)
}
