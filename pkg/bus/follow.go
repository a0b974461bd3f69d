package bus

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// Subscription is a subscription of which its owner can learn whether it is behind.
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
