package bustest

import (
	"errors"
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

// PublishRequest sends an empty request whose answer goes to a subject that anybody may have, as a hostile client does.
func (b *Bus) PublishRequest(t testing.TB, subject, reply string) {
	t.Helper()
	nc := b.raw(t)
	if err := errors.Join(nc.PublishRequest(subject, reply, nil), nc.Flush()); err != nil {
		t.Fatalf("request %s: %v", subject, err)
	}
}

func (b *Bus) raw(t testing.TB) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(b))
	if err != nil {
		t.Fatalf("connect to the bus: %v", err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func (b *Bus) jetstream(t testing.TB) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(b.raw(t))
	if err != nil {
		t.Fatalf("connect to the bus: %v", err)
	}
	return js
}
