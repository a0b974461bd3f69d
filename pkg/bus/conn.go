package bus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// DefaultTimeout bounds a call whose context has no deadline.
const DefaultTimeout = 5 * time.Second

// Credentials prove who connects: a user JWT and the seed of its key. Both are read
// again at each connect, so that renewed ones are used.
type Credentials func() (jwt string, seed []byte, err error)

// InProcess is an embedded server, as nats-server offers it.
type InProcess interface {
	InProcessConn() (net.Conn, error)
}

// Options say where the bus is and who connects.
type Options struct {
	URL         string         // nats://host:port, several with commas; ignored with InProcess
	InProcess   InProcess      // an embedded server, or nil
	Credentials Credentials    // nil only for a server without authentication, in tests
	Name        string         // the user's name: prefix of its inbox, and the actor of its calls
	API         string         // prefix of the JetStream API as this account sees it; empty means topology.CoreAPI
	Log         zerolog.Logger // what happens to the connection
	Persist     bool           // keep trying when the bus is away at the start: for services and servers, not for people
	MaxBackoff  time.Duration  // the longest wait between two tries to reconnect; 0 means 10 s
	Denied      func(error)    // told when the bus refuses a subject, which no answer ever says; may be nil, must not block
}

// Conn is a connection to the bus. It is safe for concurrent use.
type Conn struct {
	nc   *nats.Conn
	js   jetstream.JetStream
	name string
	api  string
	log  zerolog.Logger

	closing atomic.Bool // we end it ourselves

	mu     sync.Mutex
	back   []func() // called when the bus is there, again or for the first time
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

// Get gives the first value of a header, or "".
func (m Message) Get(header string) string { return nats.Header(m.Header).Get(header) }

// Dial connects. With Persist it returns at once and connects in the background;
// otherwise an error is of kind Unavailable or Denied.
func Dial(o Options) (*Conn, error) {
	c := &Conn{name: o.Name, api: o.API, log: o.Log, link: newLink()}
	if c.api == "" {
		c.api = topology.CoreAPI
	}
	nc, err := nats.Connect(o.URL, c.natsOptions(o)...)
	if err != nil {
		return nil, connectError(o.URL, err)
	}
	c.nc = nc
	if c.api == topology.CoreAPI {
		c.js, err = jetstream.New(nc)
	} else {
		c.js, err = jetstream.NewWithAPIPrefix(nc, c.api)
	}
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("open JetStream under %s: %w", c.api, err)
	}
	return c, nil
}

func connectError(url string, err error) error {
	if LoginOf(err).Refused() {
		return fault.New(fault.Denied, "connect to the bus at %s: %w", url, err)
	}
	return fault.New(fault.Unavailable, "connect to the bus at %s: %w", url, err)
}

func (c *Conn) natsOptions(o Options) []nats.Option {
	longest := o.MaxBackoff
	if longest == 0 {
		longest = 10 * time.Second
	}
	opts := []nats.Option{
		nats.Name(o.Name),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // a refused login is a state to wait in, not an end
		nats.ReconnectBufSize(-1),   // nothing is believed sent while away
		nats.PingInterval(10 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.Timeout(5 * time.Second),
		nats.CustomReconnectDelay(func(attempt int) time.Duration { return c.nextTry(attempt, longest) }),
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
			c.heard(err)
			if o.Denied != nil && errors.Is(err, nats.ErrPermissionViolation) {
				o.Denied(fault.New(fault.Denied, "%w", err))
			}
		}),
	}
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

// sayAwayEvery is how often it is logged that the bus cannot be reached, while the reason is the same.
const sayAwayEvery = time.Minute

// sayAway gives what logs why the bus cannot be reached: wrong credentials must not look
// like a process that hangs. The client calls it from one goroutine.
func (c *Conn) sayAway() func(*nats.Conn, error) {
	var said time.Time
	var reason string
	return func(_ *nats.Conn, err error) {
		c.refused(err)
		if err.Error() == reason && time.Since(said) < sayAwayEvery {
			return
		}
		said, reason = time.Now(), err.Error()
		c.log.Warn().Err(err).Msg("bus cannot be reached")
	}
}

// backoff is full jitter under a doubling ceiling, so that a fleet does not return at once.
func backoff(attempt int, longest time.Duration) time.Duration {
	ceiling := min(longest, 50*time.Millisecond<<min(attempt, 20))
	return ceiling/10 + time.Duration(rand.Int64N(int64(ceiling)))
}

// OnBack calls f each time the bus is back: what was told while it was away was missed.
// f must not block. However short the time away was, f is called.
func (c *Conn) OnBack(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.back = append(c.back, f)
}

func (c *Conn) sayBack() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.back {
		f()
	}
}

// Close sends what is waiting and disconnects.
func (c *Conn) Close() {
	c.closing.Store(true)
	_ = c.nc.FlushTimeout(time.Second)
	c.nc.Close()
}

// Name gives the user's name.
func (c *Conn) Name() string { return c.name }

// Connected says whether the bus can be reached now.
func (c *Conn) Connected() bool { return c.nc.IsConnected() }

// WaitConnected waits until the bus can be reached or ctx is done.
func (c *Conn) WaitConnected(ctx context.Context) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !c.nc.IsConnected() {
		select {
		case <-ctx.Done():
			return fault.New(fault.Unavailable, "wait for the bus: %w (last: %v)", ctx.Err(), c.nc.LastError())
		case <-tick.C:
		}
	}
	return nil
}

// Provision declares streams and consumers, and logs what that takes; see topology.Ensure.
func (c *Conn) Provision(ctx context.Context, b topology.Bus) error {
	p, err := topology.Ensure(ctx, c.js, b)
	if p.From.Newer() {
		c.log.Warn().Uint32("bus", p.From.Number).Uint32("own", topology.Number).
			Msg("a newer program set the bus up; it is left as it is")
	}
	if !p.New {
		for _, s := range p.Steps {
			c.log.Info().Uint32("topology", s.To).Str("step", s.Name).Err(err).Msg(s.What)
		}
		for _, change := range p.Changes {
			c.log.Info().Str("what", change.What).Err(err).Msg(change.How)
		}
	}
	return err
}

// Topology compares the bus with what Provision would make of it, and changes nothing.
func (c *Conn) Topology(ctx context.Context, b topology.Bus) (topology.Plan, error) {
	return topology.Look(ctx, c.js, b)
}

// WaitStream waits until a stream is there, which is when the bus was provisioned.
func (c *Conn) WaitStream(ctx context.Context, stream string) error {
	for {
		_, err := c.lastSequence(ctx, stream)
		if err == nil {
			return nil
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

// SubscribeShared is Subscribe for replicas of one service: each message goes to one of them.
func (c *Conn) SubscribeShared(subject, group string, f func(Message)) (stop func(), err error) {
	s, err := c.nc.QueueSubscribe(subject, group, func(m *nats.Msg) {
		f(Message{Subject: m.Subject, Header: m.Header, Data: m.Data})
	})
	if err != nil {
		return nil, fault.New(fault.Unavailable, "subscribe to %s: %w", subject, err)
	}
	c.settleSubscription()
	return func() { _ = s.Unsubscribe() }, nil
}

// settleSubscription waits until the bus has heard of what was subscribed to last.
func (c *Conn) settleSubscription() {
	if c.nc.IsConnected() {
		_ = c.nc.FlushTimeout(DefaultTimeout) // if the bus goes away now, it is told when it is back
	}
}

// Durable is a message that must be stored.
type Durable struct {
	Subject string
	ID      string // the message id, for de-duplication; may be empty
	Type    string // the content type; empty means protobuf
	Data    []byte
	Guard   *uint64 // store only while the last sequence on Subject is this; nil means always
}

// PublishDurable stores a message and gives its place in its stream. It tries until ctx
// is done or, without a deadline, for DefaultTimeout. An error of kind Conflict means
// that the guard did not hold, or that the subject is full: somebody wrote before. That
// may have been this very call, in a try whose answer was lost, so whoever must know
// looks at what is stored.
func (c *Conn) PublishDurable(ctx context.Context, d Durable) (uint64, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	m := &nats.Msg{Subject: d.Subject, Header: nats.Header{}, Data: d.Data}
	if d.ID != "" {
		m.Header[nats.MsgIdHdr] = []string{d.ID}
	}
	if d.Type != "" {
		m.Header["Content-Type"] = []string{d.Type}
	}
	if d.Guard != nil {
		setGuard(m.Header, "", *d.Guard)
	}
	ack, err := c.publishRetrying(ctx, m)
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
