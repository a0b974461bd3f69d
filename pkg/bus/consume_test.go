package bus_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// impatient makes a message a dead letter after a few tries.
func impatient(t *testing.T, tries int) {
	t.Helper()
	before := topology.MaxDeliver
	topology.MaxDeliver = tries
	t.Cleanup(func() { topology.MaxDeliver = before })
}

func deadLetters(t *testing.T, c *bus.Conn) uint64 {
	t.Helper()
	s, err := c.Stream(t.Context(), topology.DeadLetter)
	if err != nil {
		t.Fatal(err)
	}
	return s.LastSequence
}

func publishIntent(t *testing.T, c *bus.Conn) {
	t.Helper()
	m := bus.Durable{Subject: topology.IntentSubject("refresh", "alice", ident.New())}
	if _, err := c.PublishDurable(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

// An intent was acknowledged to its publisher, so a ledger that is away for hours must
// not turn it into waste: only what fails for its own sake does.
func TestWhatCannotBeHandledNowIsKeptForLater(t *testing.T) {
	t.Parallel()
	impatient(t, 3)
	c := bustest.Start(t).Dial(t, "registry")
	var tries atomic.Int32
	handled := make(chan struct{})
	bustest.Go(t, func(ctx context.Context) error {
		return c.Consume(ctx, topology.RegistryIntents, func(context.Context, bus.Message) error {
			if tries.Add(1) <= 5 {
				return fault.New(fault.Unavailable, "the ledger is away")
			}
			close(handled)
			return nil
		})
	})
	publishIntent(t, c)
	select {
	case <-handled:
	case <-time.After(time.Minute):
		t.Errorf("not handled after %d tries", tries.Load())
	}
	if n := deadLetters(t, c); n != 0 {
		t.Errorf("%d dead letters, want none", n)
	}
}

func TestAMessageThatCannotBeHandledBecomesADeadLetter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind  fault.Kind
		tries int32
	}{
		"cannot be read":        {fault.Invalid, 1},
		"fails again and again": {fault.Internal, 3},
	} {
		t.Run(name, func(t *testing.T) {
			impatient(t, 3)
			conn := bustest.Start(t).Dial(t, "registry")
			var tries atomic.Int32
			bustest.Go(t, func(ctx context.Context) error {
				return conn.Consume(ctx, topology.RegistryIntents, func(context.Context, bus.Message) error {
					tries.Add(1)
					return fault.New(c.kind, "poison")
				})
			})
			publishIntent(t, conn)
			polltest.Eventually(t, "it is a dead letter", func() bool { return deadLetters(t, conn) == 1 })
			if got := tries.Load(); got != c.tries {
				t.Errorf("a dead letter after %d tries, want %d", got, c.tries)
			}
		})
	}
}

// After a restart of the bus nothing is lost, without a new subscription by the caller.
func TestConsumingGoesOnAfterARestartOfTheBus(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	c := b.Dial(t, "registry")
	var handled atomic.Int32
	bustest.Go(t, func(ctx context.Context) error {
		return c.Consume(ctx, topology.RegistryIntents, func(context.Context, bus.Message) error {
			handled.Add(1)
			return nil
		})
	})
	publishIntent(t, c)
	polltest.Eventually(t, "the first is handled", func() bool { return handled.Load() == 1 })
	b.Restart(t, func(string) {})
	publishIntent(t, c)
	polltest.Eventually(t, "the second is handled", func() bool { return handled.Load() >= 2 })
}

// A killed bus may have a consumer on its disk and not the last messages that it counts.
// What is stored in their places must not be passed over: nats-server sees to it, and what
// is said again relies on it.
func TestAConsumerThatIsAheadOfItsStreamPassesNothingOver(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	c := b.Dial(t, "task-dispatcher")
	var mu sync.Mutex
	handled := map[string]int{}
	bustest.Go(t, func(ctx context.Context) error {
		return c.Consume(ctx, topology.DispatcherTasks, func(_ context.Context, m bus.Message) error {
			mu.Lock()
			defer mu.Unlock()
			handled[string(m.Data)]++
			return nil
		})
	})
	isHandled := func(what string) {
		t.Helper()
		polltest.Eventually(t, what+" is handled", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return handled[what] > 0
		})
	}
	say := func(what string) {
		t.Helper()
		at := topology.ServerAddress{Cell: "main", Server: what}
		polltest.Eventually(t, what+" is stored", func() bool {
			_, err := c.PublishDurable(t.Context(),
				bus.Durable{Subject: topology.ReportSubject(at, topology.ReportTask), Data: []byte(what)})
			return err == nil
		})
	}
	say("before")
	isHandled("before")
	b.Forget(t, topology.Reports, func() {
		for _, what := range []string{"lost-1", "lost-2", "lost-3"} {
			say(what)
			isHandled(what)
		}
	})
	for _, what := range []string{"next-1", "next-2", "next-3"} { // as many as were lost
		say(what)
		isHandled(what)
	}
}

// A handler that fails because the bus went away cannot put its message back at that moment.
func TestAMessageIsPutBackWhenTheBusIsBack(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	c := b.Dial(t, "registry")
	begun, away := make(chan struct{}), make(chan struct{})
	var tries atomic.Int32
	bustest.Go(t, func(ctx context.Context) error {
		return c.Consume(ctx, topology.RegistryIntents, func(context.Context, bus.Message) error {
			if tries.Add(1) > 1 {
				return nil
			}
			close(begun)
			<-away
			return fault.New(fault.Unavailable, "the bus is away")
		})
	})
	publishIntent(t, c)
	<-begun
	b.Restart(t, func(string) {
		for c.Connected() {
			time.Sleep(time.Millisecond)
		}
		close(away)
		time.Sleep(50 * time.Millisecond) // it is tried to put it back
	})
	polltest.Eventually(t, "it is handled again", func() bool { return tries.Load() > 1 })
}

// A message without data and headers ends a request to another account. It must not hold up the messages
// behind it, for anybody who may publish can send one.
func TestEmptyMessagesHoldUpNoOther(t *testing.T) {
	t.Parallel()
	g := bustest.StartGuarded(t)
	registry := g.Service(t, topology.UserRegistry)
	var handled atomic.Int32
	bustest.Go(t, func(ctx context.Context) error {
		return registry.Consume(ctx, topology.RegistryIntents, func(context.Context, bus.Message) error {
			handled.Add(1)
			return nil
		})
	})
	const n = 2000
	raw := g.RawPerson(t, "alice", topology.Operator)
	began := time.Now()
	for i := range n {
		subject := topology.IntentSubject(topology.VerbRefresh, "alice", ident.New())
		if err := raw.Publish(subject, make([]byte, i%2)); err != nil {
			t.Fatal(err)
		}
	}
	polltest.Eventually(t, "all are handled", func() bool { return handled.Load() >= n })
	t.Logf("%d in %v", n, time.Since(began))
}

// The facts that reports lead to share disk syncs only if hundreds of reports are handled at a time.
func TestHundredsOfServersReportsAreHandledAtOnce(t *testing.T) {
	t.Parallel()
	c := bustest.Start(t).Dial(t, "task-dispatcher")
	var handling atomic.Int32
	release := make(chan struct{})
	bustest.Go(t, func(ctx context.Context) error {
		return c.Consume(ctx, topology.DispatcherTasks, func(ctx context.Context, _ bus.Message) error {
			handling.Add(1)
			select {
			case <-release:
			case <-ctx.Done():
			}
			return nil
		})
	})
	defer close(release)
	const servers = 300
	for range servers {
		at := topology.ServerAddress{Cell: topology.DefaultCell, Server: ident.New()}
		if _, err := c.PublishDurable(t.Context(),
			bus.Durable{Subject: topology.ReportSubject(at, topology.ReportTask)}); err != nil {
			t.Fatal(err)
		}
	}
	polltest.Eventually(t, "all are handled at once", func() bool { return handling.Load() == servers })
}
