package bus

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

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

// Dial connects. With Persist it returns at once and connects in the background;
// otherwise an error is of kind Unavailable or Denied.
func Dial(o Options) (*Conn, error) {
	s := &session{log: o.Log, link: newLink(), up: make(chan struct{})}
	s.explain = func(err error) error { return o.TLS.explain(o.URL, err) }
	c := &Conn{session: s, streamReader: streamReader{s, cmp.Or(o.API, topology.CoreAPI)}, options: o, name: o.Name}
	opts := c.natsOptions(o)
	if o.InProcess == nil {
		more, err := o.TLS.options(o.URL, o.Persist)
		if err != nil {
			return nil, err
		}
		opts = append(opts, more...)
	}
	nc, err := connect(o.URL, opts)
	if err != nil {
		return nil, connectError(o.URL, c.explain(err))
	}
	c.nc = nc
	return c, nil
}

func connectError(url string, err error) error {
	if fault.RefusalOf(err) != nil {
		return err
	}
	if LoginOf(err).Refused() {
		return fault.New(fault.Denied, "connect to the bus at %s: %w", url, err)
	}
	return fault.New(fault.Unavailable, "connect to the bus at %s: %w", url, err)
}

// connectTries bounds how often a login is tried whose time the bus took for its own.
const connectTries = 3

// pingBeforePong is what the client makes of a login that took the bus more than two seconds: it pings a client that is
// not logged in yet, and the client takes the ping for the answer to its own (nats.go, sendConnect).
const pingBeforePong = "expected 'PONG', got 'PING'"

// connect logs in. A login that is only slow is tried again.
func connect(url string, opts []nats.Option) (nc *nats.Conn, err error) {
	for range connectTries {
		if nc, err = nats.Connect(url, opts...); err == nil || !strings.Contains(err.Error(), pingBeforePong) {
			break
		}
	}
	return nc, err
}

// Another opens a second connection with the same options: for messages whose number others decide, so
// that they delay no answer on the first one. The caller closes it.
func (c *Conn) Another() (*Conn, error) { return Dial(c.options) }

func (c *session) natsOptions(o Options) []nats.Option {
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

// sign answers the server's challenge with the key of the credentials.
func sign(credentials Credentials, nonce []byte) ([]byte, error) {
	_, seed, err := credentials()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	pair, err := nkeys.FromSeed(seed)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	defer pair.Wipe()
	return pair.Sign(nonce)
}

// waits are the options about time; see topology.PingEvery.
func (c *session) waits(o Options) []nats.Option {
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

// backoff is full jitter under a ceiling that doubles with each try, so that a fleet does not return at once. The first
// try is number 1.
func backoff(attempt int, first, longest time.Duration) time.Duration {
	ceiling := min(longest, first<<min(max(attempt-1, 0), 20))
	return ceiling/10 + time.Duration(rand.Int64N(int64(ceiling-ceiling/10)))
}
