package bus

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
)

// errAnswerLost says that the connection was lost after something was asked over it.
var errAnswerLost = errors.New("the bus went away before it answered")

// link is one connection to the bus, from one reconnect to the next. What the bus itself
// was asked over it is never answered over the next one, so nobody waits for that.
type link struct {
	life context.Context
	end  context.CancelFunc
}

func newLink() link {
	life, end := context.WithCancel(context.Background())
	return link{life, end}
}

// breakLink tells everybody who waits for an answer that none will come.
func (c *Conn) breakLink() {
	c.mu.Lock()
	old := c.link
	c.link = newLink()
	c.mu.Unlock()
	old.end()
}

// overLink gives a context that also ends when the connection of this moment is lost,
// and what tells that apart from the end of ctx.
func (c *Conn) overLink(ctx context.Context) (once context.Context, done context.CancelFunc, explain func(error) error) {
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

// request asks the bus itself, and not a service behind it, which may answer later.
func (c *Conn) request(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	once, done, explain := c.overLink(ctx)
	defer done()
	answer, err := c.nc.RequestMsgWithContext(once, m)
	if err != nil {
		return nil, requestError(explain(err))
	}
	return answer, nil
}
