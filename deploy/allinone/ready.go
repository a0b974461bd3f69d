package allinone

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/metrics"
	"github.com/garrison-fleet/garrison/pkg/regular"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
)

// askReady is the pause between two calls of a service that does not answer yet.
const askReady = 50 * time.Millisecond

// WaitReady waits, while Run runs, until every service answers requests and clients can connect. An error is ctx's.
func (g *Garrison) WaitReady(ctx context.Context) error {
	select {
	case <-g.listening:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait until the services answer: %w", context.Cause(ctx))
	}
}

// Alive returns nil when every service in this process answers a request.
func (g *Garrison) Alive(ctx context.Context) error {
	for _, c := range g.conns {
		if !slices.Contains(g.config.Services, c.Name()) {
			continue
		}
		if err := about(ctx, c); err != nil {
			return fmt.Errorf("%s does not answer: %w", c.Name(), err)
		}
	}
	return nil
}

// measure adds the checks of the whole process to its metrics.
func (g *Garrison) measure() {
	g.config.Metrics.Ready("listener", func(context.Context) error {
		select {
		case <-g.listening:
			return nil
		default:
			return errors.New("clients cannot connect yet")
		}
	})
	g.config.Metrics.Ready("streams", func(context.Context) error { return g.trouble() })
	g.config.Metrics.Under("garrisond").Gauge(metrics.BusFree, func(context.Context) []metrics.Sample {
		free, err := freeAt(g.config.Data) // the embedded server has no limit of its own
		if err != nil {
			return nil
		}
		return metrics.One(float64(free))
	})
	g.config.Metrics.Works("services", func(ctx context.Context) error {
		select {
		case <-g.listening:
			return g.Alive(ctx)
		default:
			return nil // a start takes as long as it takes
		}
	})
}

// about asks a service for its version, over its own connection.
func about(ctx context.Context, c *bus.Conn) error {
	method := apiv1.File_garrison_api_v1_api_proto.Services().ByName("AboutService").Methods().ByName("About")
	_, err := bus.Call[*apiv1.AboutResponse](ctx, c, c.Name(), method, &apiv1.AboutRequest{})
	return err
}

// waitServices waits until every service answers requests. An error is ctx's.
func (g *Garrison) waitServices(ctx context.Context) error {
	for _, c := range g.conns {
		for slices.Contains(g.config.Services, c.Name()) { // the other connections serve nothing
			if about(ctx, c) == nil {
				break
			}
			select {
			case <-time.After(askReady):
			case <-ctx.Done():
				return fmt.Errorf("wait for %s: %w", c.Name(), context.Cause(ctx))
			}
		}
	}
	return nil
}

// urlOf returns the URL of the garrisond that runs with a data directory. The address in a copy of the directory is
// that of another one.
func urlOf(ctx context.Context, data string) (string, error) {
	kept, err := keptAddress(data)
	if err != nil {
		return "", fmt.Errorf("no address in the data directory; pass --url for a bus of its own: %w", err)
	}
	if free, err := lock(filepath.Join(data, "lock")); err == nil {
		_ = free.Close()
		return "", fmt.Errorf("no garrisond runs with the data directory %s; start it first", data)
	}
	return "tls://" + kept, HealthOf(ctx, data)
}

// longestAddress bounds what is read of the address that a garrisond keeps.
const longestAddress = 1 << 10

// keptAddress returns the address at which the garrisond of a data directory listens. Root reads it, too: a file of
// another kind, and a link out of the directory, are errors.
func keptAddress(data string) (string, error) {
	f, err := regular.OpenIn(data, "address")
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, longestAddress))
	return strings.TrimSpace(string(text)), err
}

// HealthOf reports, as a nil error, that the garrisond of a data directory serves clients: it opens its port once every
// service answers, and ends when one of them fails.
func HealthOf(ctx context.Context, data string) error {
	address, err := keptAddress(data)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no garrisond has run with the data directory %s", data)
	}
	if err != nil {
		return err
	}
	if err := Health(ctx, "tls://"+address); err != nil {
		return fmt.Errorf("the garrisond of %s does not serve clients at %s; it is not running, or its services do "+
			"not answer yet: %w", data, address, err)
	}
	return nil
}

// Health connects to the bus at an address and waits for its greeting. It needs no credentials.
func Health(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return fmt.Errorf("bus address %q: want nats://host:port", address)
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetReadDeadline(time.Now().Add(3 * time.Second)); err != nil {
		return err
	}
	greeting, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return fmt.Errorf("read the bus's greeting: %w", err)
	}
	if !strings.HasPrefix(greeting, "INFO ") {
		return errors.New("the listener there is not a NATS server")
	}
	return nil
}
