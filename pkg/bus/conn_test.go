package bus_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ledger"
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

// A wait that ends without a bus names why that could not be reached, and not only that it took too long.
func TestAWaitForABusThatRefusesNamesIt(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "nats://" + l.Addr().String()
	_ = l.Close()
	c, err := bus.Dial(bus.Options{URL: url, Name: "alice", Persist: true, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	refused := func() bool { return c.Away() != nil && strings.Contains(c.Away().Error(), "connection refused") }
	polltest.Eventually(t, "the connection is refused", refused)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.WaitConnected(ctx); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("%v, want that the connection was refused", err)
	}
}

// A request that is pending at a disconnect is never answered. It must not wait until
// the end of a deadline that was set for something longer, nor the writer, whose other
// appends wait behind.
func TestNobodyWaitsForAnAnswerThatARestartOfTheBusTook(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	c := b.Dial(t, "test")
	w := b.Writer(t, c)
	if _, err := w.Append(t.Context(), ledger.Free(queued("first"))); err != nil {
		t.Fatal(err)
	}
	asks := map[string]func(context.Context, int) error{
		"append": func(ctx context.Context, n int) error {
			_, err := w.Append(ctx, ledger.Free(queued(fmt.Sprintf("a%d", n))),
				ledger.Free(queued(fmt.Sprintf("b%d", n))))
			return err
		},
		"end of the stream": func(ctx context.Context, _ int) error {
			_, err := c.Stream(ctx, topology.Ledger)
			return err
		},
		"last fact": func(ctx context.Context, _ int) error {
			_, err := c.DirectGet(ctx, topology.Ledger, queuedSubject("first"))
			return err
		},
		"facts": func(ctx context.Context, _ int) error {
			_, err := c.DirectGetFrom(ctx, topology.Ledger, ledger.AllSubjects, 1, 100)
			return err
		},
	}
	for range 4 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		stop := make(chan struct{})
		var all sync.WaitGroup
		for what, ask := range asks {
			for g := range 4 {
				all.Go(func() { askUntil(ctx, t, stop, what, func(n int) error { return ask(ctx, 1000*g+n) }) })
			}
		}
		time.Sleep(50 * time.Millisecond)
		b.Restart(t, func(string) {})
		close(stop)
		all.Wait()
		cancel()
	}
}

// askUntil asks again and again, also while the bus is away, and fails the test when a question waits for its deadline.
func askUntil(ctx context.Context, t *testing.T, stop chan struct{}, what string, ask func(int) error) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		err := ask(n)
		if ctx.Err() != nil {
			t.Errorf("%s: waited until its deadline (%v)", what, err)
			return
		}
		if err != nil {
			time.Sleep(time.Millisecond)
		}
	}
}

func queuedSubject(key string) string { return ledger.Free(queued(key)).Subject() }
