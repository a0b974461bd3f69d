package bus_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// copying is a bus whose ledger is copied, as those who provision it have it.
type copying struct {
	*testing.T
	streams     *bus.Streams
	to          *bus.Conn
	core, audit jetstream.JetStream
	registry    *nats.Conn
}

func startCopying(t *testing.T) *copying {
	t.Helper()
	g := bustest.StartGuarded(t)
	c := &copying{
		T: t, streams: bus.NewStreams(g.Service(t, topology.UserProvision)),
		to: g.Service(t, topology.UserProvisionCopy), registry: g.RawService(t, topology.UserRegistry),
	}
	var err error
	if c.core, err = jetstream.New(g.RawService(t, topology.UserProvision)); err != nil {
		t.Fatal(err)
	}
	if c.audit, err = jetstream.New(g.RawService(t, topology.UserProvisionCopy)); err != nil {
		t.Fatal(err)
	}
	return c
}

// provision brings the copy to its bounds, and returns how many changes that took.
func (c *copying) provision(b topology.CopyBounds) int {
	c.Helper()
	want := bus.Copying{To: c.to, Bounds: b, Replicas: 1}
	p, err := c.streams.Copy(c.Context(), want)
	if err != nil {
		c.Fatal(err)
	}
	if err := c.streams.ProvisionCopy(c.Context(), want); err != nil {
		c.Fatal(err)
	}
	return len(p.Changes)
}

// writes writes facts of a size as the registry, and waits for each.
func (c *copying) writes(n, size int) {
	c.Helper()
	for i := range n {
		m := nats.NewMsg(ledger.FactSubject(ledger.Server, fmt.Sprint("s", i), "online"))
		m.Data = bytes.Repeat([]byte("x"), size)
		if _, err := c.registry.RequestMsg(m, time.Minute); err != nil {
			c.Fatalf("fact %d: %v", i, err)
		}
	}
}

func (c *copying) state(js jetstream.JetStream, stream string) jetstream.StreamState {
	c.Helper()
	s, err := js.Stream(c.Context(), stream)
	if err != nil {
		c.Fatalf("stream %s: %v", stream, err)
	}
	return s.CachedInfo().State
}

// copied waits until the copy ends where the ledger does.
func (c *copying) copied() (copied jetstream.StreamState) {
	c.Helper()
	end := c.state(c.core, topology.Ledger).LastSeq
	polltest.Eventually(c.T, "the copy has the end of the ledger", func() bool {
		copied = c.state(c.audit, topology.Copy)
		return copied.LastSeq == end
	})
	return copied
}

func TestOldFactsGoFromTheCopyAlone(t *testing.T) {
	t.Parallel()
	c := startCopying(t)
	c.writes(10, 100) // the copy begins with what is there
	bounds := topology.CopyBounds{Bytes: 1 << 20}
	if n := c.provision(bounds); n != 2 {
		t.Errorf("%d changes, want a stream and its consumer", n)
	}
	c.copied()
	if n := c.provision(bounds); n != 0 {
		t.Errorf("%d changes the second time", n)
	}
	c.writes(300, 8<<10)
	if s := c.copied(); s.Bytes > 1<<20 || s.FirstSeq == 1 || s.Msgs == 0 {
		t.Errorf("the copy has %d bytes from fact %d", s.Bytes, s.FirstSeq)
	}
	c.provision(topology.CopyBounds{Bytes: 1 << 20, Age: time.Second})
	polltest.Eventually(t, "facts that are too old go", func() bool {
		return c.state(c.audit, topology.Copy).Msgs == 0
	})
	c.writes(1, 100)
	if s := c.copied(); s.Msgs > 1 {
		t.Errorf("the copy has %d facts", s.Msgs)
	}
	if s := c.state(c.core, topology.Ledger); s.Msgs != 311 || s.FirstSeq != 1 {
		t.Errorf("the ledger has %d facts from fact %d", s.Msgs, s.FirstSeq)
	}
}

func TestTheLedgerTakesFactsWhateverBecomesOfTheCopy(t *testing.T) {
	t.Parallel()
	c := startCopying(t)
	bounds := topology.CopyBounds{Bytes: 16 << 20}
	c.provision(bounds)
	c.writes(10, 100)
	c.copied()
	if err := c.audit.DeleteStream(t.Context(), topology.Copy); err != nil { // nothing takes what the ledger delivers
		t.Fatal(err)
	}
	c.writes(1500, 100) // more than are on their way at most
	if n := c.provision(bounds); n != 3 {
		t.Errorf("%d changes, want the consumer to be deleted, and both to be made", n)
	}
	if s := c.copied(); s.Msgs != 1510 || s.FirstSeq != 1 {
		t.Errorf("the copy has %d facts from %d", s.Msgs, s.FirstSeq)
	}
}

// An auditor can move the feed with the help of a fact whose body reads as such a request.
func TestACopyWhoseFeedWasMovedIsMadeAnew(t *testing.T) {
	t.Parallel()
	c := startCopying(t)
	bounds := topology.CopyBounds{Bytes: 1 << 20}
	c.provision(bounds)
	c.writes(10, 100)
	c.copied()
	_, err := c.core.Conn().Request(topology.CoreAPI+".CONSUMER.RESET.LEDGER.AUDIT", []byte(`{"seq":21}`), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // beyond the place to which it was moved
		c.writes(5, 100)
	}
	if n := c.provision(bounds); n != 4 {
		t.Errorf("%d changes, want both to be deleted and made", n)
	}
	if s := c.copied(); s.Msgs != 25 {
		t.Errorf("the copy has %d facts, want 25", s.Msgs)
	}
}

func TestACopyThatIsSwitchedOffLeavesNothing(t *testing.T) {
	t.Parallel()
	c := startCopying(t)
	if n := c.provision(topology.CopyBounds{}); n != 0 {
		t.Errorf("%d changes on a bus that never had a copy", n)
	}
	c.provision(topology.CopyBounds{Bytes: 1 << 20})
	c.writes(1, 100)
	c.copied()
	if n := c.provision(topology.CopyBounds{}); n != 2 {
		t.Errorf("%d changes, want the stream and its consumer to go", n)
	}
	if _, err := c.audit.Stream(t.Context(), topology.Copy); err == nil {
		t.Error("there is a copy")
	}
	if s := c.state(c.core, topology.Ledger); s.Consumers != 0 || s.Msgs != 1 {
		t.Errorf("the ledger has %d consumers and %d facts", s.Consumers, s.Msgs)
	}
}
