package bus_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

func report(t *testing.T, c *bus.Conn, server, what string) {
	t.Helper()
	at := topology.ServerAddress{Cell: "main", Server: server}
	d := bus.Durable{Subject: topology.ReportSubject(at, topology.ReportTask), Data: []byte(what)}
	if _, err := c.PublishDurable(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

// taskConsumer returns the consumer of reports about tasks, over a connection of its own.
func taskConsumer(t *testing.T, b *bustest.Bus) (jetstream.Consumer, *nats.Conn) {
	t.Helper()
	nc, err := nats.Connect("", nats.Timeout(time.Minute), nats.InProcessServer(b))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := js.Consumer(t.Context(), topology.DispatcherTasks.Stream, topology.DispatcherTasks.Durable)
	if err != nil {
		t.Fatal(err)
	}
	return consumer, nc
}

// deliveredOnce checks that the bus delivered n messages, each once.
func deliveredOnce(t *testing.T, b *bustest.Bus, n int) {
	t.Helper()
	consumer, _ := taskConsumer(t, b)
	info, err := consumer.Info(t.Context())
	if err != nil || info.Delivered.Consumer != uint64(n) || info.NumRedelivered != 0 {
		t.Errorf("%d deliveries of %d messages (%v)", info.Delivered.Consumer, n, err)
	}
}

// However long a handler takes, its message and those that wait behind it on the same
// subject are handled once and in order, beside another replica that has nothing to do.
func TestAMessageIsNotDeliveredAgainWhileItIsHandled(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	var mu sync.Mutex
	var handled []string
	for range 2 {
		c := b.Dial(t, "task-dispatcher")
		bustest.Go(t, func(ctx context.Context) error {
			return c.Consume(ctx, topology.DispatcherTasks, func(ctx context.Context, m bus.Message) error {
				if string(m.Data) == "slow" {
					select {
					case <-time.After(topology.AckWait + 2*time.Second):
					case <-ctx.Done():
					}
				}
				mu.Lock()
				defer mu.Unlock()
				handled = append(handled, fmt.Sprintf("%s delivered %d", m.Data, m.Delivered))
				return nil
			})
		})
	}
	report(t, b.Dial(t, "server"), "one", "slow")
	polltest.Eventually(t, "the slow one is handled", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(handled) > 0
	})
	polltest.Eventually(t, "it is acknowledged, and is not delivered again", func() bool {
		return b.AckFloor(t, topology.DispatcherTasks) == 1
	})
	deliveredOnce(t, b, 1)
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"slow delivered 1"}; !slices.Equal(handled, want) {
		t.Errorf("handled %v, want %v", handled, want)
	}
}

func TestMessagesBehindASlowOneKeepTheirOrder(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	c := b.Dial(t, "task-dispatcher")
	var want []string
	for i := range 200 { // more than a lane held before
		what := fmt.Sprintf("%d", i)
		report(t, c, "one", what)
		if i < 64 { // a stream keeps that many reports of a server
			want = append(want, fmt.Sprintf("%d", 200-64+i))
		}
	}
	var mu sync.Mutex
	var handled []string
	bustest.Go(t, func(ctx context.Context) error {
		return c.Consume(ctx, topology.DispatcherTasks, func(ctx context.Context, m bus.Message) error {
			mu.Lock()
			first := len(handled) == 0
			handled = append(handled, string(m.Data))
			mu.Unlock()
			if first {
				select {
				case <-time.After(topology.AckWait + 2*time.Second):
				case <-ctx.Done():
				}
			}
			return nil
		})
	})
	polltest.Eventually(t, "all are handled", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(handled) >= len(want)
	})
	deliveredOnce(t, b, len(want))
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(handled, want) {
		t.Errorf("handled %v, want %v", handled, want)
	}
}

// A process that was killed held as many messages as a consumer delivers, so that nothing
// behind them moves until they are delivered again.
func TestWhatAKilledProcessHeldIsHandledSoon(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	c := b.Dial(t, "task-dispatcher")
	for i := range topology.MaxAckPending {
		report(t, c, fmt.Sprintf("s%d", i), "held")
	}
	consumer, nc := taskConsumer(t, b)
	batch, err := consumer.Fetch(topology.MaxAckPending)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for range batch.Messages() {
		n++
	}
	if n != topology.MaxAckPending || batch.Error() != nil {
		t.Fatalf("the first process got %d messages: %v", n, batch.Error())
	}
	nc.Close() // it is killed
	report(t, c, "behind", "behind")
	var mu sync.Mutex
	handled := 0
	killed := time.Now()
	bustest.Go(t, func(ctx context.Context) error {
		return c.Consume(ctx, topology.DispatcherTasks, func(context.Context, bus.Message) error {
			mu.Lock()
			defer mu.Unlock()
			handled++
			return nil
		})
	})
	polltest.Eventually(t, "everything is handled", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return handled == topology.MaxAckPending+1
	})
	t.Logf("handled %v after the kill", time.Since(killed).Round(100*time.Millisecond))
}
