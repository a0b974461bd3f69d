package bus

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// session is the client's side of a connection: whether the bus is there and lets it in, and requests to the bus
// itself.
type session struct {
	nc  *nats.Conn
	log zerolog.Logger

	explain func(error) error // says more about the error of a connect

	closing atomic.Bool // we end it ourselves
	wasLost atomic.Bool // a connection was lost since Dial

	mu     sync.Mutex
	away   error         // why the last connect failed; nil while the bus is there
	back   []func()      // called when the bus is there, again or for the first time
	up     chan struct{} // closed when the bus is there, and then replaced
	access Access
	link   link
}

// sayAwayEvery is how often it is logged that the bus cannot be reached, while the reason is the same.
const sayAwayEvery = time.Minute

// sayAway returns what logs why the bus cannot be reached: wrong credentials must not look
// like a process that hangs. The client calls it from one goroutine.
func (c *session) sayAway() func(*nats.Conn, error) {
	var said time.Time
	var reason string
	return func(_ *nats.Conn, err error) {
		err = c.explain(err)
		c.refused(err)
		c.mu.Lock()
		if c.away == nil || !errors.Is(err, nats.ErrNoServers) { // which sums up the errors before
			c.away = err
		}
		c.mu.Unlock()
		if err.Error() == reason && time.Since(said) < sayAwayEvery {
			return
		}
		said, reason = time.Now(), err.Error()
		c.log.Warn().Err(err).Msg("bus cannot be reached")
	}
}

// OnBack calls f after each reconnect, however short the disconnect was: messages without a
// stream were missed meanwhile. f must not block.
func (c *session) OnBack(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.back = append(c.back, f)
}

func (c *session) sayBack() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.up)
	c.up = make(chan struct{})
	for _, f := range c.back {
		f()
	}
}

// WasLost reports whether a connection to the bus was lost since Dial. OnBack also announces the first one.
func (c *session) WasLost() bool { return c.wasLost.Load() }

// Close sends what is waiting and disconnects.
func (c *session) Close() {
	c.closing.Store(true)
	_ = c.nc.FlushTimeout(time.Second)
	c.nc.Close()
}

// Connected reports whether the bus can be reached now.
func (c *session) Connected() bool { return c.nc.IsConnected() }

// Away returns why the last try to reach the bus failed; nil while it is there, and before the first try ended.
func (c *session) Away() error {
	if c.nc.IsConnected() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.away
}

// WaitConnected waits until the bus can be reached or ctx is done.
func (c *session) WaitConnected(ctx context.Context) error {
	for {
		c.mu.Lock()
		up := c.up
		c.mu.Unlock()
		if c.nc.IsConnected() { // looked at behind up, which is closed after the client connected
			return nil
		}
		select {
		case <-ctx.Done():
			if away := c.Away(); away != nil {
				return fault.New(fault.Unavailable, "wait for the bus: %w (last: %w)", ctx.Err(), away)
			}
			return fault.New(fault.Unavailable, "wait for the bus: %w", ctx.Err())
		case <-up:
		}
	}
}

// Reconnect ends the connection and connects again at once, with the credentials as they are then.
// Requests under way fail as at any disconnect. It does not wait for the new connection.
func (c *session) Reconnect() error { return c.nc.ForceReconnect() }

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
func (c *session) breakLink() {
	c.wasLost.Store(true)
	c.mu.Lock()
	old := c.link
	c.link = newLink()
	c.mu.Unlock()
	old.end()
}

// overLink returns a context that also ends when the current connection is lost. explain turns
// the error of that end into errAnswerLost.
func (c *session) overLink(
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
func (c *session) UntilDisconnect(ctx context.Context) (context.Context, context.CancelFunc) {
	once, done, _ := c.overLink(ctx)
	return once, done
}

// request sends a request to the bus itself, not to a service behind it, which may answer later.
func (c *session) request(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	once, done, explain := c.overLink(ctx)
	defer done()
	answer, err := c.nc.RequestMsgWithContext(once, m)
	if err != nil {
		return nil, requestError(explain(err))
	}
	return answer, nil
}

// ofSeveral reports whether the bus has several servers, or had when it was last connected.
func (c *session) ofSeveral() bool { return c.nc.ConnectedClusterName() != "" }

// MayLag returns for how long a replica of a stream may lack what another one answered: it was paused, say, and catches
// up. It is as long as a replay waits for a leader that is behind. A bus of one server has no replicas.
func (c *session) MayLag() time.Duration {
	if c.ofSeveral() {
		return replayShorter * replayCheck
	}
	return 0
}
