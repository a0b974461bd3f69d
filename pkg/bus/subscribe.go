package bus

import (
	"time"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// Subscribe hands messages to f, one after another, until stop is called. f must not
// block for long. When it returns the bus knows of it, unless the bus is away: then it
// will when it is back.
func (c *Conn) Subscribe(subject string, f func(Message)) (stop func(), err error) {
	s, err := c.nc.Subscribe(subject, func(m *nats.Msg) {
		f(Message{Subject: m.Subject, Header: m.Header, Data: m.Data})
	})
	if err != nil {
		return nil, fault.New(fault.Unavailable, "subscribe to %s: %w", subject, err)
	}
	c.settleSubscription()
	return func() { _ = s.Unsubscribe() }, nil
}

// SubscribeShared is Subscribe for replicas of one service: each message goes to one of them. stop returns when f has
// handled every message that came here, as no other replica has it.
func (c *Conn) SubscribeShared(subject, group string, f func(Message)) (stop func(), err error) {
	s, err := c.nc.QueueSubscribe(subject, group, func(m *nats.Msg) {
		f(Message{Subject: m.Subject, Header: m.Header, Data: m.Data})
	})
	if err != nil {
		return nil, fault.New(fault.Unavailable, "subscribe to %s: %w", subject, err)
	}
	c.settleSubscription()
	return func() { drain(s) }, nil
}

// drain ends a subscription once its messages are handled, within DefaultTimeout.
func drain(s *nats.Subscription) {
	ended := make(chan struct{})
	s.SetClosedHandler(func(string) { close(ended) })
	if err := s.Drain(); err != nil { // without a connection, nothing more comes
		_ = s.Unsubscribe()
		return
	}
	select {
	case <-ended:
	case <-time.After(DefaultTimeout):
		_ = s.Unsubscribe()
	}
}

// settleSubscription waits until the bus has processed the last subscription.
func (c *Conn) settleSubscription() {
	if c.nc.IsConnected() {
		_ = c.nc.FlushTimeout(DefaultTimeout) // after a disconnect, the client subscribes again
	}
}
