package bustest

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/garrison-fleet/garrison/pkg/topology"
)

// StartWithoutGuard starts a bus with nothing but a ledger, from which Delete takes facts,
// as a disk does that is damaged.
func StartWithoutGuard(t testing.TB) *Bus {
	t.Helper()
	b := StartEmpty(t)
	_, err := b.jetstream(t).CreateStream(t.Context(), jetstream.StreamConfig{
		Name: topology.Ledger, Subjects: []string{topology.LedgerSubjects}, AllowDirect: true, AllowAtomicPublish: true,
	})
	if err != nil {
		t.Fatalf("make a ledger: %v", err)
	}
	return b
}

// Delete deletes facts from the ledger of StartWithoutGuard.
func (b *Bus) Delete(t testing.TB, sequences ...uint64) {
	t.Helper()
	s, err := b.jetstream(t).Stream(t.Context(), topology.Ledger)
	if err != nil {
		t.Fatalf("find the ledger: %v", err)
	}
	for _, n := range sequences {
		if err := s.DeleteMsg(t.Context(), n); err != nil {
			t.Fatalf("delete fact %d: %v", n, err)
		}
	}
}

func (b *Bus) jetstream(t testing.TB) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(b))
	if err != nil {
		t.Fatalf("connect to the bus: %v", err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatalf("connect to the bus: %v", err)
	}
	return js
}
