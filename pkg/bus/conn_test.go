package bus_test

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// lines is a log that may be read while it is written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A service that waits for its bus says so, and why: otherwise a wrong address or wrong
// credentials look like a process that hangs.
func TestWaitingForTheBusIsLoggedWithItsReason(t *testing.T) {
	t.Parallel()
	var log lines
	c, err := bus.Dial(bus.Options{URL: "nats://127.0.0.1:1", Name: "registry", Log: zerolog.New(&log), Persist: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	polltest.Eventually(t, "it is logged", func() bool { return strings.Contains(log.String(), "connection refused") })
}

// The end of a connection that we end ourselves is no news; any other is.
func TestOnlyABusThatLeavesIsSaidToBeAway(t *testing.T) {
	t.Parallel()
	b := bustest.StartGuarded(t)
	var log lines
	dial := func() *bus.Conn {
		c, err := bus.Dial(bus.Options{
			URL:         b.URL,
			Credentials: trust.ReadCredentials(b.Authority.ServiceCredentials(topology.UserRegistry)),
			Name:        topology.UserRegistry,
			API:         topology.ServicesAPI,
			Log:         zerolog.New(&log),
		})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	left := dial()
	defer left.Close()
	dial().Close()
	b.Stop()
	polltest.Eventually(t, "one says that the bus is away",
		func() bool { return strings.Contains(log.String(), "bus cannot be reached") })
	if n := strings.Count(log.String(), "bus away"); n != 1 {
		t.Errorf("%d say that the bus is away: %s", n, log.String())
	}
}
