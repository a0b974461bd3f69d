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

// Store stores a message in its stream as another version would, and returns its sequence there.
func (b *Bus) Store(t testing.TB, subject string, header map[string][]string, data []byte) uint64 {
	t.Helper()
	stored, err := b.jetstream(t).PublishMsg(t.Context(), &nats.Msg{Subject: subject, Header: header, Data: data})
	if err != nil {
		t.Fatalf("store %s: %v", subject, err)
	}
	return stored.Sequence
}

// SetLedgerMetadata changes one entry of the metadata of the ledger, as another version would.
func (b *Bus) SetLedgerMetadata(t testing.TB, key, value string) {
	t.Helper()
	js := b.jetstream(t)
	s, err := js.Stream(t.Context(), topology.Ledger)
	if err != nil {
		t.Fatalf("find the ledger: %v", err)
	}
	config := s.CachedInfo().Config
	config.Metadata[key] = value
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatalf("change the ledger: %v", err)
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
