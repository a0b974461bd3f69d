package bus

import (
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// Dial connects. With Persist it returns at once and connects in the background;
// otherwise an error is of kind Unavailable or Denied.
func Dial(o Options) (*Conn, error) {
	c := &Conn{options: o, name: o.Name, api: o.API, log: o.Log, link: newLink(), up: make(chan struct{})}
	if c.api == "" {
		c.api = topology.CoreAPI
	}
	c.explain = func(err error) error { return o.TLS.explain(o.URL, err) }
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
