package bus

import (
	"context"
	"sync/atomic"
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

// Subscription is a subscription that tells its owner whether it is behind.
type Subscription struct {
	conn    *Conn
	sub     *nats.Subscription
	handled atomic.Int64
}

// catchUpCheck is how often CatchUp looks whether the messages were handled.
const catchUpCheck = 10 * time.Millisecond

// Follow is Subscribe for a caller that draws conclusions from messages that do not come; see CatchUp.
func (c *Conn) Follow(subject string, f func(Message)) (*Subscription, error) {
	s := &Subscription{conn: c}
	sub, err := c.nc.Subscribe(subject, func(m *nats.Msg) {
		f(Message{Subject: m.Subject, Header: m.Header, Data: m.Data})
		s.handled.Add(1)
	})
	if err != nil {
		return nil, fault.New(fault.Unavailable, "subscribe to %s: %w", subject, err)
	}
	s.sub = sub
	c.settleSubscription()
	return s, nil
}

// CatchUp waits until every message was handled that the bus had for this subscription when CatchUp was called. Its
// answer to a ping comes behind those messages. Without a deadline it takes DefaultTimeout at most. An error means that
// the connection was lost or the time is over.
func (s *Subscription) CatchUp(ctx context.Context) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	once, done, explain := s.conn.overLink(ctx)
	defer done()
	if err := s.conn.nc.FlushWithContext(once); err != nil {
		return requestError(explain(err))
	}
	begun, err := s.sub.Delivered()
	waiting, _, e := s.sub.Pending()
	if err != nil || e != nil {
		return fault.New(fault.Unavailable, "the subscription ended")
	}
	for s.handled.Load() < begun+int64(waiting) {
		select {
		case <-once.Done():
			return requestError(explain(once.Err()))
		case <-time.After(catchUpCheck):
		}
	}
	return nil
}

// Stop ends the subscription.
func (s *Subscription) Stop() { _ = s.sub.Unsubscribe() }
