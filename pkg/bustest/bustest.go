// Package bustest gives a test a real bus: an embedded nats-server with JetStream on
// disk, in the test's process and directory, with every stream of package topology.
//
// There is no authentication, so permissions are not tested here; e2e does that against
// the real accounts. Servers start in milliseconds, so each test has its own, and
// nothing is mocked.
package bustest

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
)

// Bus is an embedded server with every stream.
type Bus struct {
	store string

	mu     sync.Mutex
	server *server.Server
}

// Start starts a bus that ends with the test.
func Start(t testing.TB) *Bus {
	t.Helper()
	b := StartEmpty(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := b.Dial(t, "provision").Provision(ctx, 1); err != nil {
		t.Fatalf("provision the bus: %v", err)
	}
	return b
}

// StartEmpty starts a bus without streams.
func StartEmpty(t testing.TB) *Bus {
	t.Helper()
	b := &Bus{store: t.TempDir()}
	b.start(t)
	t.Cleanup(b.stop)
	return b
}

func (b *Bus) start(t testing.TB) {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		ServerName: "bustest", DontListen: true, JetStream: true, StoreDir: b.store,
		NoSigs: true, NoLog: true, SyncInterval: time.Minute,
	})
	if err != nil {
		t.Fatalf("make a server: %v", err)
	}
	s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("the server is not ready after 20 s")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.server = s
}

func (b *Bus) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.server.Shutdown()
	b.server.WaitForShutdown()
}

// Restart stops the bus, calls meanwhile with the directory of its streams, and starts
// it again on that directory. Connections come back by themselves.
func (b *Bus) Restart(t testing.TB, meanwhile func(store string)) {
	t.Helper()
	b.stop()
	meanwhile(b.store)
	b.start(t)
}

// Dial connects under a name; the connection ends with the test.
func (b *Bus) Dial(t testing.TB, name string) *bus.Conn {
	t.Helper()
	c, err := bus.Dial(bus.Options{InProcess: b, Name: name, Log: zerolog.Nop()})
	if err != nil {
		t.Fatalf("connect to the bus: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

// InProcessConn gives a connection to the server, for whoever dials by itself (bus.InProcess).
func (b *Bus) InProcessConn() (net.Conn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.server.InProcessConn()
}

// Writer gives a running writer on the connection; it ends with the test.
func (b *Bus) Writer(t testing.TB, c *bus.Conn) *bus.Writer {
	t.Helper()
	w := c.NewWriter()
	Go(t, w.Run)
	return w
}

// Go runs f until the test ends, and fails the test if f does.
func Go(t testing.TB, f func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("ended with: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// Eventually looks until done says true, and fails the test after 20 s.
func Eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}
