// Package bustest starts a real bus for a test: an embedded nats-server with JetStream on
// disk, in the test's process and directory, with every stream of package topology.
//
// There is no authentication, so permissions are not tested on it; Guarded starts a bus with
// the real accounts, for the attack tests of package trust. Servers start in milliseconds, so each test has its own,
// and nothing is mocked.
package bustest

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// Bus is an embedded server with every stream.
type Bus struct {
	store   string
	durable bool // each write is synced to the disk

	mu     sync.Mutex
	server *server.Server
}

// Start starts a bus that ends with the test.
func Start(t testing.TB) *Bus {
	t.Helper()
	return StartEmpty(t).provisioned(t)
}

// StartDurable is Start of a bus that syncs each write to its disk, and that services know
// to do so.
func StartDurable(t testing.TB) *Bus {
	t.Helper()
	return startEmpty(t, true).provisioned(t)
}

func (b *Bus) provisioned(t testing.TB) *Bus {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	want := topology.Bus{Replicas: 1, SyncsAlways: b.durable}
	if err := bus.NewStreams(b.Dial(t, "provision")).Provision(ctx, want); err != nil {
		t.Fatalf("provision the bus: %v", err)
	}
	return b
}

// StartEmpty starts a bus without streams.
func StartEmpty(t testing.TB) *Bus {
	t.Helper()
	return startEmpty(t, false)
}

func startEmpty(t testing.TB, durable bool) *Bus {
	t.Helper()
	b := &Bus{store: t.TempDir(), durable: durable}
	b.start(t)
	t.Cleanup(b.stop)
	return b
}

func (b *Bus) start(t testing.TB) {
	t.Helper()
	s := startServer(t, server.Options{
		ServerName: "bustest", DontListen: true, JetStream: true, StoreDir: b.store,
		SyncInterval: time.Minute, SyncAlways: b.durable,
	})
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

// Forget runs f, and then has a stream lose what it stored meanwhile, as one that is not
// synced for each write does when the bus is killed. Consumers are synced, so they remember
// more than their stream does.
func (b *Bus) Forget(t testing.TB, stream string, f func()) {
	t.Helper()
	before := t.TempDir()
	msgs := func(store string) string { return filepath.Join(store, "jetstream", "$G", "streams", stream, "msgs") }
	b.Restart(t, func(store string) {
		if err := os.CopyFS(before, os.DirFS(msgs(store))); err != nil {
			t.Fatalf("keep stream %s: %v", stream, err)
		}
	})
	f()
	b.Restart(t, func(store string) {
		if err := errors.Join(os.RemoveAll(msgs(store)), os.CopyFS(msgs(store), os.DirFS(before))); err != nil {
			t.Fatalf("set stream %s back: %v", stream, err)
		}
	})
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

// InProcessConn returns a connection to the server, for callers that dial by themselves (bus.InProcess).
func (b *Bus) InProcessConn() (net.Conn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.server.InProcessConn()
}

// AckFloor returns the place in its stream up to which a consumer has everything acknowledged.
func (b *Bus) AckFloor(t testing.TB, c topology.Consumer) uint64 {
	t.Helper()
	nc, err := nats.Connect("", nats.Timeout(time.Minute), nats.InProcessServer(b))
	if err != nil {
		t.Fatalf("connect to the bus: %v", err)
	}
	defer nc.Close()
	m, err := nc.Request("$JS.API.CONSUMER.INFO."+c.Stream+"."+c.Durable, nil, 20*time.Second)
	if err != nil {
		t.Fatalf("ask about consumer %s: %v", c.Durable, err)
	}
	var info jetstream.ConsumerInfo
	if err := json.Unmarshal(m.Data, &info); err != nil {
		t.Fatalf("read about consumer %s: %v", c.Durable, err)
	}
	return info.AckFloor.Stream
}

// Writer returns a running writer on the connection; it ends with the test.
func (b *Bus) Writer(t testing.TB, c *bus.Conn) *bus.Writer {
	t.Helper()
	w := c.NewWriter()
	Go(t, w.Run)
	return w
}

// Go runs f until the test ends, and fails the test if f fails or does not return when its context is done.
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
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("ended with: %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("not ended a minute after it was stopped")
		}
	}
	t.Cleanup(stop)
	return stop
}

// Serve runs a service as Go does, and returns when it answers.
func Serve(t testing.TB, run func(context.Context) error, serving <-chan struct{}) (stop func()) {
	t.Helper()
	stop = Go(t, run)
	Answers(t, serving)
	return stop
}

// Answers waits until a service answers.
func Answers(t testing.TB, serving <-chan struct{}) {
	t.Helper()
	select {
	case <-serving:
	case <-time.After(time.Minute):
		t.Fatal("the service does not answer after a minute")
	}
}
