package bus_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
)

// growth returns a growth from one bus into another, which logs what it copies.
func growth(t *testing.T, from *bustest.Bus, to *bustest.Cluster) bus.Growth {
	return bus.Growth{
		From: bus.NewStreams(from.Dial(t, topology.UserProvision)),
		To:   bus.NewStreams(to.Dial(t, topology.UserProvision)),
		Want: topology.Bus{Replicas: 3}, Say: t.Logf,
	}
}

// decides runs a service that accepts each intent, as a registry does: a fact, guarded by its key, before the intent
// is acknowledged.
func decides(t *testing.T, c *bus.Conn) (stop func()) {
	w := c.NewWriter()
	stopWriter := bustest.Go(t, w.Run)
	stopConsumer := bustest.Go(t, func(ctx context.Context) error {
		return c.Consume(ctx, topology.RegistryIntents, func(ctx context.Context, m bus.Message) error {
			id := m.Subject[len(m.Subject)-8:]
			f := ledger.Fact{
				Noun: ledger.Intent, Key: id, Body: &intentv1.Accepted{}, ID: "fact-" + id, At: time.Now(),
				Source: ledger.Registry, Actor: "alice",
			}
			_, err := w.Append(ctx, ledger.OnKey(f, 0))
			if fault.Is(err, fault.Conflict) {
				return nil // it was decided before
			}
			return err
		})
	})
	return func() { stopConsumer(); stopWriter() }
}

// publisher publishes intents at a rate to the bus that it is pointed at, and keeps those that were acknowledged.
type publisher struct {
	mu    sync.Mutex
	to    *bus.Conn
	acked map[string]time.Time
}

func (p *publisher) point(to *bus.Conn) { p.mu.Lock(); p.to = to; p.mu.Unlock() }

func (p *publisher) count() int { p.mu.Lock(); defer p.mu.Unlock(); return len(p.acked) }

func (p *publisher) run(ctx context.Context) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		p.mu.Lock()
		to := p.to
		p.mu.Unlock()
		id := fmt.Sprintf("%08d", n)
		once, cancel := context.WithTimeout(ctx, 5*time.Second)
		subject := topology.IntentSubject(topology.VerbRefresh, "alice", id)
		_, err := to.PublishDurable(once, bus.Durable{Subject: subject})
		cancel()
		if err == nil {
			p.mu.Lock()
			p.acked[id] = time.Now()
			p.mu.Unlock()
		}
	}
}

func TestABusThatGrowsUnderLoadLosesNoIntentThatItAcknowledged(t *testing.T) {
	t.Parallel()
	one, three := bustest.StartDurable(t), bustest.StartEmptyCluster(t)
	before := one.Dial(t, "registry")
	stop := decides(t, before)
	p := &publisher{to: one.Dial(t, "alice"), acked: map[string]time.Time{}}
	bustest.Go(t, p.run)
	polltest.Eventually(t, "intents are acknowledged", func() bool { return p.count() > 100 })
	g := growth(t, one, three)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	done, err := g.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", done)
	stop()
	n := p.count()
	p.point(three.Dial(t, "alice"))
	after := three.Dial(t, "registry")
	decides(t, after)
	polltest.Eventually(t, "the cluster acknowledges intents", func() bool { return p.count() > n+100 })
	p.point(one.Dial(t, "late")) // no more are acknowledged
	old, err := before.Stream(ctx, topology.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	end, err := after.Stream(ctx, topology.Ledger)
	if err != nil || !end.Created.Equal(old.Created) {
		t.Errorf("the ledger was created %v, want %v (%v)", end.Created, old.Created, err)
	}
	for seq := uint64(1); seq <= old.LastSequence; seq += 500 {
		was, err := before.DirectGetFrom(ctx, topology.Ledger, ledger.AllSubjects, seq, 500)
		if err != nil {
			t.Fatal(err)
		}
		is, err := after.DirectGetFrom(ctx, topology.Ledger, ledger.AllSubjects, seq, 500)
		if err != nil || len(is) < len(was) {
			t.Fatalf("%d facts from %d on, want %d: %v", len(is), seq, len(was), err)
		}
		for i := range was {
			delete(was[i].Header, "Nats-Num-Pending") // of this reading
			delete(is[i].Header, "Nats-Num-Pending")
			if is[i].Sequence != was[i].Sequence || !is[i].Time.Equal(was[i].Time) || is[i].Subject != was[i].Subject ||
				string(is[i].Data) != string(was[i].Data) || fmt.Sprint(is[i].Header) != fmt.Sprint(was[i].Header) {
				t.Fatalf("fact %d differs: %v, want %v", was[i].Sequence, is[i], was[i])
			}
		}
	}
	for id := range p.acked {
		subject := ledger.FactSubject(ledger.Intent, id, "accepted")
		polltest.Eventually(t, "intent "+id+" is decided", func() bool {
			_, err := after.DirectGet(ctx, topology.Ledger, subject)
			return err == nil
		})
	}
	if again, err := g.Run(ctx); err != nil || !again.Already {
		t.Errorf("a second time: %+v, %v", again, err)
	}
	other := g
	other.To = bus.NewStreams(bustest.Start(t).Dial(t, topology.UserProvision))
	_, err = other.Run(ctx)
	if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "to another cluster before") {
		t.Errorf("the old bus grows again, into another cluster: %v", err)
	}
	err = bus.NewStreams(before).Provision(ctx, topology.Bus{Replicas: 1, SyncsAlways: true})
	if r := fault.RefusalOf(err); r == nil || r.Code != code.BusMoved {
		t.Errorf("the old bus is provisioned: %v", err)
	}
}

// decidesNow publishes an intent and waits until it is decided.
func decidesNow(t *testing.T, c *bus.Conn, id string) {
	t.Helper()
	subject := topology.IntentSubject(topology.VerbRefresh, "alice", id)
	if _, err := c.PublishDurable(t.Context(), bus.Durable{Subject: subject}); err != nil {
		t.Fatal(err)
	}
	polltest.Eventually(t, "intent "+id+" is decided", func() bool {
		_, err := c.DirectGet(t.Context(), topology.Ledger, ledger.FactSubject(ledger.Intent, id, "accepted"))
		return err == nil
	})
}

func TestAGrowthThatFailsIsTakenBackAndOneThatWasKilledBeginsAnew(t *testing.T) {
	t.Parallel()
	one, three := bustest.StartDurable(t), bustest.StartEmptyCluster(t)
	c := one.Dial(t, "registry")
	stop := decides(t, c)
	decidesNow(t, c, "00000001")

	failing := growth(t, one, three)
	ctx, cancel := context.WithCancel(t.Context())
	failing.Say = func(string, ...any) { cancel() }
	if done, err := failing.Run(ctx); err == nil {
		t.Fatalf("a move that was cancelled succeeded: %+v", done)
	}
	decidesNow(t, c, "00000002")
	if _, err := three.Dial(t, topology.UserProvision).Stream(t.Context(), topology.Blobs); err == nil {
		t.Error("the cluster keeps a stream of a move that failed")
	}

	killed := growth(t, one, three)
	from, to := one.Dial(t, topology.UserProvision), three.Dial(t, topology.UserProvision)
	killed.From, killed.To = bus.NewStreams(from), bus.NewStreams(to)
	killed.Say = func(string, ...any) { from.Close(); to.Close() }
	if done, err := killed.Run(t.Context()); err == nil {
		t.Fatalf("a move without connections succeeded: %+v", done)
	}
	done, err := growth(t, one, three).Run(t.Context())
	if err != nil || done.Messages != 4 {
		t.Fatalf("%+v, %v; want two intents and two facts", done, err)
	}
	stop()
	after := three.Dial(t, "registry")
	decides(t, after)
	decidesNow(t, after, "00000003")
	if s, err := after.Stream(t.Context(), topology.Ledger); err != nil || s.LastSequence != 3 {
		t.Errorf("the ledger ends at %d (%v), want 3: nothing is decided twice", s.LastSequence, err)
	}
}

func TestABusDoesNotGrowIntoOneThatIsInUse(t *testing.T) {
	t.Parallel()
	one, three := bustest.Start(t), bustest.StartCluster(t)
	c := one.Dial(t, "registry")
	decides(t, c)
	if done, err := growth(t, one, three).Run(t.Context()); !fault.Is(err, fault.Conflict) {
		t.Errorf("%+v, %v; want a conflict", done, err)
	}
	decidesNow(t, c, "00000001") // it was not touched
}
