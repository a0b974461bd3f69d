package bus

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
)

// errAnswerLost means that the connection was lost after a request was sent over it.
var errAnswerLost = errors.New("disconnected from the bus before it answered")

// link is one connection to the bus, from one reconnect to the next. The bus never answers a
// request of one connection over the next, so pending requests fail with it.
type link struct {
	life context.Context
	end  context.CancelFunc
}

func newLink() link {
	life, end := context.WithCancel(context.Background())
	return link{life, end}
}

// breakLink fails all pending requests to the bus itself.
func (c *Conn) breakLink() {
	c.wasLost.Store(true)
	c.mu.Lock()
	old := c.link
	c.link = newLink()
	c.mu.Unlock()
	old.end()
}

// overLink returns a context that also ends when the current connection is lost. explain turns
// the error of that end into errAnswerLost.
func (c *Conn) overLink(
	ctx context.Context,
) (once context.Context, done context.CancelFunc, explain func(error) error) {
	c.mu.Lock()
	now := c.link
	c.mu.Unlock()
	once, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(now.life, cancel)
	done = func() { stop(); cancel() }
	return once, done, func(err error) error {
		if errors.Is(err, context.Canceled) && ctx.Err() == nil {
			return errAnswerLost
		}
		return err
	}
}

// UntilDisconnect returns a context that also ends when the current connection is lost, for a caller that waits for an
// answer: one that is published while the caller is disconnected never arrives.
func (c *Conn) UntilDisconnect(ctx context.Context) (context.Context, context.CancelFunc) {
	once, done, _ := c.overLink(ctx)
	return once, done
}

// request sends a request to the bus itself, not to a service behind it, which may answer later.
func (c *Conn) request(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	once, done, explain := c.overLink(ctx)
	defer done()
	answer, err := c.nc.RequestMsgWithContext(once, m)
	if err != nil {
		return nil, requestError(explain(err))
	}
	return answer, nil
}
