package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// DefaultTimeout bounds a call whose context has no deadline.
const DefaultTimeout = 5 * time.Second

// Credentials returns a user JWT and the seed of its key. Both are read again at each
// connect, so that renewed credentials are used.
type Credentials func() (jwt string, seed []byte, err error)

// InProcess is an embedded server, as nats-server offers it.
type InProcess interface {
	InProcessConn() (net.Conn, error)
}

// Options are the address of the bus and the identity of the client.
type Options struct {
	URL         string         // nats://host:port, several with commas; ignored with InProcess
	InProcess   InProcess      // an embedded server, or nil
	TLS         TLS            // how to know the bus; ignored with InProcess
	Credentials Credentials    // nil only for a server without authentication, in tests
	Name        string         // the user's name: prefix of its inbox, and the actor of its calls
	API         string         // prefix of the JetStream API as this account sees it; empty means topology.CoreAPI
	Log         zerolog.Logger // of connects and disconnects
	Tail        *Tail          // the announcements of the ledger in this process; nil means a subscription of its own
	// retry when the bus is unreachable at the start: for services and servers, not for people
	Persist    bool
	FirstWait  time.Duration // the longest wait before the first try to reconnect; 0 means 100 ms
	MaxBackoff time.Duration // the longest wait between two tries to reconnect; 0 means 10 s
	// called when the bus refuses a subject, which no answer reports; may be nil, must not block
	Denied func(error)
}

// Conn is a connection to the bus. It is safe for concurrent use.
type Conn struct {
	nc      *nats.Conn
	options Options
	name    string
	api     string
	log     zerolog.Logger

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

// Message is a message on the bus.
type Message struct {
	Subject   string
	Header    map[string][]string
	Data      []byte
	Sequence  uint64    // its place in its stream, or 0
	Time      time.Time // when the stream stored it, or zero
	Delivered uint64    // how often it was delivered to this consumer, or 0
}

// Get returns the first value of a header, or "".
func (m Message) Get(header string) string { return nats.Header(m.Header).Get(header) }

func (c *Conn) natsOptions(o Options) []nats.Option {
	opts := append(c.waits(o),
		nats.Name(o.Name),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // a refused login is a state to wait in, not an end
		nats.ReconnectBufSize(-1),   // nothing is believed sent while away
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err == nil {
				err = nats.ErrDisconnected
			}
			c.lost(err)
			c.breakLink()
			if !c.closing.Load() {
				c.log.Warn().Err(err).Msg("bus away")
			}
		}),
		nats.ReconnectErrHandler(c.sayAway()),
		nats.ConnectHandler(func(*nats.Conn) {
			c.letIn()
			c.sayBack()
		}),
		nats.ReconnectHandler(func(*nats.Conn) {
			c.letIn()
			c.log.Info().Msg("bus back")
			c.sayBack()
		}),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			e := c.log.Warn().Err(err)
			if s != nil {
				e = e.Str("subject", s.Subject)
			}
			e.Msg("bus error")
			c.onError(err)
			if o.Denied != nil && errors.Is(err, nats.ErrPermissionViolation) {
				o.Denied(fault.New(fault.Denied, "%w", err))
			}
		}),
	)
	if o.Name != "" {
		opts = append(opts, nats.CustomInboxPrefix(topology.Inbox(o.Name)))
	}
	if o.InProcess != nil {
		opts = append(opts, nats.InProcessServer(o.InProcess))
	}
	if o.Persist {
		opts = append(opts, nats.RetryOnFailedConnect(true))
	}
	if o.Credentials != nil {
		opts = append(opts, nats.UserJWT(
			func() (string, error) {
				jwt, _, err := o.Credentials()
				if err != nil {
					return "", fmt.Errorf("%w: %w", errUnreadable, err)
				}
				return jwt, nil
			},
			func(nonce []byte) ([]byte, error) { return sign(o.Credentials, nonce) }))
	}
	return opts
}

// waits are the options about time; see topology.PingEvery.
func (c *Conn) waits(o Options) []nats.Option {
	login, reach, ping := DefaultTimeout, topology.ReachWithin, topology.PingEvery
	several := o.InProcess == nil && strings.Contains(o.URL, ",")
	if several {
		ping = topology.PingEveryOfSeveral
	}
	switch {
	case o.Persist:
		login = topology.LoginWithin
	case several: // another one may answer a person sooner
		login, reach = nextWithin, nextWithin
	}
	first, longest := cmp.Or(o.FirstWait, 100*time.Millisecond), cmp.Or(o.MaxBackoff, 10*time.Second)
	return []nats.Option{
		nats.PingInterval(ping),
		nats.MaxPingsOutstanding(topology.PingsMissed),
		nats.SetCustomDialer(&net.Dialer{Timeout: reach}),
		nats.Timeout(login),
		nats.SyncQueueLen(answersWaiting),
		nats.CustomReconnectDelay(func(attempt int) time.Duration {
			return c.nextTry(backoff(attempt, first, longest))
		}),
	}
}

// nextWithin is how long a client that does not persist waits for one of several servers of the bus.
const nextWithin = 3 * time.Second

// answersWaiting is how many answers to one request wait to be read. It is more than any request asks for, replayBatch
// messages. The client makes room for them at each request, so that its default, 65,536, was most of what a service
// that reads often allocated.
const answersWaiting = 8192

// sayAwayEvery is how often it is logged that the bus cannot be reached, while the reason is the same.
const sayAwayEvery = time.Minute

// sayAway returns what logs why the bus cannot be reached: wrong credentials must not look
// like a process that hangs. The client calls it from one goroutine.
func (c *Conn) sayAway() func(*nats.Conn, error) {
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

// backoff is full jitter under a ceiling that doubles with each try, so that a fleet does not return at once. The first
// try is number 1.
func backoff(attempt int, first, longest time.Duration) time.Duration {
	ceiling := min(longest, first<<min(max(attempt-1, 0), 20))
	return ceiling/10 + time.Duration(rand.Int64N(int64(ceiling-ceiling/10)))
}

// OnBack calls f after each reconnect, however short the disconnect was: messages without a
// stream were missed meanwhile. f must not block.
func (c *Conn) OnBack(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.back = append(c.back, f)
}

func (c *Conn) sayBack() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.up)
	c.up = make(chan struct{})
	for _, f := range c.back {
		f()
	}
}

// WasLost reports whether a connection to the bus was lost since Dial. OnBack also announces the first one.
func (c *Conn) WasLost() bool { return c.wasLost.Load() }

// Close sends what is waiting and disconnects.
func (c *Conn) Close() {
	c.closing.Store(true)
	_ = c.nc.FlushTimeout(time.Second)
	c.nc.Close()
}

// Name returns the user's name.
func (c *Conn) Name() string { return c.name }

// Connected reports whether the bus can be reached now.
func (c *Conn) Connected() bool { return c.nc.IsConnected() }

// Away returns why the last try to reach the bus failed; nil while it is there, and before the first try ended.
func (c *Conn) Away() error {
	if c.nc.IsConnected() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.away
}

// WaitConnected waits until the bus can be reached or ctx is done.
func (c *Conn) WaitConnected(ctx context.Context) error {
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

// WaitStream waits until a stream is there and has a leader, which is when the bus was provisioned and enough of its
// servers run. It logs that it waits.
func (c *Conn) WaitStream(ctx context.Context, stream string) error {
	for said := false; ; said = true {
		_, err := c.lastSequence(ctx, stream)
		if err == nil {
			return nil
		}
		if !said && ctx.Err() == nil {
			c.log.Info().Err(err).Str("stream", stream).Msg("waiting until the bus has the stream and a leader")
		}
		select {
		case <-ctx.Done():
			return fault.New(fault.Unavailable, "wait for stream %s: %w (last: %v)", stream, ctx.Err(), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Publish sends a message that may be lost. It fails while the bus is away.
func (c *Conn) Publish(subject string, data []byte) error {
	if err := c.nc.Publish(subject, data); err != nil {
		return fault.New(fault.Unavailable, "publish on %s: %w", subject, err)
	}
	return nil
}

// Durable is a message that must be stored.
type Durable struct {
	Subject string
	Type    string // the content type; empty means protobuf
	Data    []byte
	Guard   *uint64 // store only while the last sequence on Subject is this; nil means always
	Once    bool    // Subject takes one message for ever, and only this publisher uses it; excludes Guard
}

// PublishDurable stores a message and returns its sequence in its stream. It retries until ctx
// is done or, without a deadline, for DefaultTimeout. An error of kind Conflict means that the
// guard did not hold, or that the subject is full: another write came first. That may have been
// an earlier try of this call whose answer was lost; read the stream to find out. With Once, a
// message that is stored already is no error, and the sequence is 0.
//
// A message has no message id: the bus knows ids by the stream, so any publisher to the stream
// could have this one's message thrown away as a duplicate.
func (c *Conn) PublishDurable(ctx context.Context, d Durable) (uint64, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	m := &nats.Msg{Subject: d.Subject, Header: nats.Header{}, Data: d.Data}
	if d.Type != "" {
		m.Header["Content-Type"] = []string{d.Type}
	}
	switch {
	case d.Once:
		setGuard(m.Header, "", 0)
	case d.Guard != nil:
		setGuard(m.Header, "", *d.Guard)
	}
	ack, err := c.publishRetrying(ctx, m)
	if d.Once && isCode(err, codeWrongLastSequence) {
		return 0, nil // by an earlier try
	}
	if err != nil {
		return 0, fmt.Errorf("store on %s: %w", d.Subject, err)
	}
	return ack.Sequence, nil
}

func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, DefaultTimeout)
}
