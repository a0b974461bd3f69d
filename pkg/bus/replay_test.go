package bus_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// replayed replays a stream until it has n messages or ends by itself.
func replayed(t *testing.T, c *bus.Conn, stream string, from uint64, n int) (got []uint64, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = c.Replay(ctx, stream, from, func(msgs []bus.Message) error {
		for _, m := range msgs {
			got = append(got, m.Sequence)
		}
		if len(got) >= n {
			cancel()
		}
		return nil
	})
	return got, err
}

func TestReplayEndsAtAGapInsteadOfPassingItOver(t *testing.T) {
	t.Parallel()
	c := bustest.Start(t).Dial(t, "test")
	desired := func(server string) bus.Durable {
		address := topology.ServerAddress{Cell: "main", Server: server}
		return bus.Durable{Subject: topology.DesiredSubject(address), Data: []byte("x")}
	}
	for _, server := range []string{"a", "b", "c", "b", "d"} { // the second b takes the place of the first, at 2
		if _, err := c.PublishDurable(t.Context(), desired(server)); err != nil {
			t.Fatal(err)
		}
	}
	for _, from := range []uint64{0, 1, 2} {
		got, err := replayed(t, c, topology.Desired, from, 5)
		if err == nil {
			t.Errorf("from %d: %v and no error, though 2 is missing", from, got)
		}
	}
	if got, err := replayed(t, c, topology.Desired, 3, 3); err != nil || len(got) != 3 {
		t.Errorf("from 3: %v, %v", got, err)
	}
	// What is missing at the very start is missing too: a fold from there would lack facts.
	if _, err := c.PublishDurable(t.Context(), desired("a")); err != nil {
		t.Fatal(err)
	}
	if got, err := replayed(t, c, topology.Desired, 1, 5); err == nil {
		t.Errorf("from 1: %v and no error, though 1 is missing", got)
	}
}

// A fold that writes a snapshot takes no messages meanwhile. The bus was not silent then, and the replay goes on.
func TestAReplayGoesOnBehindAReaderThatTookLong(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes longer than the bus may be silent")
	}
	c := bustest.Start(t).Dial(t, "test")
	const n = 600 // more than one chunk
	for i := range n {
		at := topology.ServerAddress{Cell: "main", Server: strconv.Itoa(i)}
		d := bus.Durable{Subject: topology.DesiredSubject(at), Data: []byte("x")}
		if _, err := c.PublishDurable(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := 0
	err := c.Replay(ctx, topology.Desired, 1, func(msgs []bus.Message) error {
		if got == 0 {
			time.Sleep(bus.DefaultTimeout + time.Second)
		}
		if got += len(msgs); got == n {
			cancel()
		}
		return nil
	})
	if err != nil || got != n {
		t.Errorf("%d messages, %v; want %d", got, err, n)
	}
}

// What follows a stream begins anew when the bus is back. The replay that was under way
// must end then, whatever its consumer makes of the bus at that moment.
func TestAReplayEndsWhenItIsToldToAsTheBusComesBack(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	c := b.Dial(t, "test")
	back := make(chan struct{}, 1)
	c.OnBack(func() { back <- struct{}{} })
	for range 3 {
		var ended []chan struct{}
		var cancels []context.CancelFunc
		for range 40 {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			end := make(chan struct{})
			go func() {
				defer close(end)
				// the bus may be gone before it has begun
				_ = c.Replay(ctx, topology.Ledger, 1, func([]bus.Message) error { return nil })
			}()
			ended, cancels = append(ended, end), append(cancels, cancel)
		}
		time.Sleep(50 * time.Millisecond) // they wait for messages
		b.Restart(t, func(string) {})
		<-back
		for _, cancel := range cancels { // one is hit at the worst moment
			cancel()
			time.Sleep(200 * time.Microsecond)
		}
		for n, end := range ended {
			select {
			case <-end:
			case <-time.After(time.Minute):
				t.Fatalf("number %d has not ended a minute after it was stopped", n)
			}
		}
	}
}

// Large messages cut a batch short by its bytes.
func TestAReplayReadsSmallAndLargeMessagesInOrder(t *testing.T) {
	t.Parallel()
	c := bustest.Start(t).Dial(t, "test")
	const small, large = 12_000, 9_000 // more than two batches, and more bytes than one may have
	for i := range small + large {
		body := make([]byte, 10)
		if i >= small {
			body = make([]byte, 2_000)
		}
		if err := c.Publish(ledger.FactSubject(ledger.Server, strconv.Itoa(i%1000), "online"), body); err != nil {
			t.Fatal(err)
		}
	}
	polltest.Eventually(t, "the ledger has every message", func() bool {
		end, err := c.Stream(t.Context(), topology.Ledger)
		return err == nil && end.LastSequence == small+large
	})
	got, err := replayed(t, c, topology.Ledger, 1, small+large)
	if err != nil || len(got) != small+large {
		t.Fatalf("%d messages, %v; want %d", len(got), err, small+large)
	}
	for n, sequence := range got {
		if sequence != uint64(n)+1 {
			t.Fatalf("message %d has sequence %d", n+1, sequence)
		}
	}
}

// BenchmarkReplay reads a ledger of 50,000 facts of 300 bytes from its start.
func BenchmarkReplay(b *testing.B) {
	const facts = 50_000
	server := bustest.Start(b)
	c := server.Dial(b, "test")
	body := make([]byte, 300)
	for i := range facts {
		subject := ledger.FactSubject(ledger.Server, strconv.Itoa(i%1000), "online")
		if err := c.Publish(subject, body); err != nil {
			b.Fatal(err)
		}
	}
	for {
		if end, err := c.Stream(b.Context(), topology.Ledger); err == nil && end.LastSequence == facts {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context())
		n := 0
		err := c.Replay(ctx, topology.Ledger, 1, func(msgs []bus.Message) error {
			if n += len(msgs); n == facts {
				cancel()
			}
			return nil
		})
		cancel()
		if err != nil || n != facts {
			b.Fatalf("%d facts, %v", n, err)
		}
	}
	b.ReportMetric(float64(facts)*float64(b.N)/b.Elapsed().Seconds(), "facts/s")
}

// A service in an account of its own follows the ledger while another one writes it.
func TestAServiceFollowsTheLedgerThroughItsAccount(t *testing.T) {
	t.Parallel()
	g := bustest.StartGuarded(t)
	writer, reader := g.Service(t, topology.UserRegistry), g.Service(t, topology.UserCatalog)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var read atomic.Uint64
	ended := make(chan error, 1)
	go func() {
		ended <- reader.Replay(ctx, topology.Ledger, 1, func(msgs []bus.Message) error {
			read.Store(msgs[len(msgs)-1].Sequence)
			return nil
		})
	}()
	const facts = 5000
	for i := range facts {
		subject := ledger.FactSubject(ledger.Server, strconv.Itoa(i%100), "online")
		if err := writer.Publish(subject, []byte("x")); err != nil {
			t.Fatal(err)
		}
		if i%10 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	deadline := time.After(60 * time.Second)
	for read.Load() < facts {
		select {
		case err := <-ended:
			t.Fatalf("ended at %d of %d: %v", read.Load(), facts, err)
		case <-deadline:
			t.Fatalf("read %d of %d", read.Load(), facts)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
