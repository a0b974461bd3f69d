package bus

import (
	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// Another opens a second connection with the same options: for messages whose number others decide, so
// that they delay no answer on the first one. The caller closes it.
func (c *Conn) Another() (*Conn, error) { return Dial(c.options) }

// SubscribeUpTo is Subscribe for the first n messages only. The bus itself ends the subscription
// behind them, so that any further ones cost this process nothing.
func (c *Conn) SubscribeUpTo(subject string, n int, f func(Message)) (stop func(), err error) {
	s, err := c.nc.Subscribe(subject, func(m *nats.Msg) {
		f(Message{Subject: m.Subject, Header: m.Header, Data: m.Data})
	})
	if err == nil {
		err = s.AutoUnsubscribe(n)
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "subscribe to %s: %w", subject, err)
	}
	c.settleSubscription()
	return func() { _ = s.Unsubscribe() }, nil
}
