package faults_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
)

// auditor reads the copy of the ledger by a durable consumer, with nats.go alone.
type auditor struct {
	*world
	connection *nats.Conn
	js         jetstream.JetStream
	consumer   jetstream.Consumer
	seen       []string // ids of the facts, in their order
	confirmed  uint64   // the last fact whose acknowledgement the bus confirmed
}

// audits creates an auditor, which connects.
func (w *world) audits() *auditor {
	w.T.Helper()
	w.OK("user", "create", "siem", "--role", "auditor", "--file", filepath.Join(w.Dir, "siem.creds"))
	a := &auditor{world: w}
	a.connect()
	return a
}

// connect connects as a new process of the auditor would.
func (a *auditor) connect() {
	a.T.Helper()
	c, err := nats.Connect(a.URL(), nats.UserCredentials(filepath.Join(a.Dir, "siem.creds")),
		nats.RootCAs(filepath.Join(a.Dir, "siem-ca.pem")), nats.CustomInboxPrefix("garrison.audit.siem"),
		nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.Timeout(time.Minute))
	if err != nil {
		a.T.Fatal(err)
	}
	a.T.Cleanup(c.Close)
	a.connection = c
	if a.js, err = jetstream.NewWithDomain(c, "audit"); err != nil {
		a.T.Fatal(err)
	}
	a.consumes()
}

// consumes creates the durable consumer, or finds it.
func (a *auditor) consumes() {
	a.T.Helper()
	a.Eventually("there is a consumer", func() (err error) {
		a.consumer, err = a.js.CreateOrUpdateConsumer(a.T.Context(), "AUDIT", jetstream.ConsumerConfig{
			Durable: "siem", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 2 * time.Second,
		})
		return err
	})
}

// take takes what there is. A fact follows the one before, and one that was confirmed does not come again.
func (a *auditor) take() error {
	batch, err := a.consumer.Fetch(100, jetstream.FetchMaxWait(300*time.Millisecond))
	if err != nil {
		return err
	}
	for m := range batch.Messages() {
		about, err := m.Metadata()
		if err != nil {
			return err
		}
		at := about.Sequence.Stream
		switch end := uint64(len(a.seen)); {
		case at <= a.confirmed:
			a.T.Errorf("fact %d comes again, and was confirmed", at)
		case at > end+1:
			a.T.Errorf("fact %d follows fact %d", at, end)
			a.seen = append(a.seen, make([]string, at-end-1)...)
			fallthrough
		case at == end+1:
			a.seen = append(a.seen, m.Headers().Get("ce-id"))
		}
		soon, cancel := context.WithTimeout(a.T.Context(), time.Second)
		if m.DoubleAck(soon) == nil {
			a.confirmed = at
		}
		cancel()
	}
	return batch.Error()
}

// hasAll takes until it has the whole ledger, and compares.
func (a *auditor) hasAll() {
	a.T.Helper()
	facts := a.Facts()
	a.Eventually("the auditor has all facts", func() error {
		if err := a.take(); err != nil {
			return err
		}
		if len(a.seen) < len(facts) || a.confirmed < uint64(len(facts)) {
			return fmt.Errorf("it has %d of %d facts, %d confirmed", len(a.seen), len(facts), a.confirmed)
		}
		return nil
	})
	for n, f := range facts {
		if f.ID != a.seen[n] {
			a.T.Fatalf("fact %d has the id %s, and %s in the copy", n+1, f.ID, a.seen[n])
		}
	}
}

// creates records some facts.
func (w *world) creates(prefix string, n int) {
	w.T.Helper()
	for i := range n {
		w.OK("app", "create", fmt.Sprint(prefix, "-", i))
	}
}

// killed kills garrisond and starts it again.
func (w *world) killed() {
	w.T.Helper()
	scenario.Must(w.T, w.Garrisond.Kill())
	scenario.Must(w.T, w.Start(w.T.Context()))
}

func TestADurableConsumerOfTheCopyMissesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{Audit: true})}
	w.creates("a", 5)
	a := w.audits()
	_ = a.take()
	for round := range 3 {
		w.creates(fmt.Sprint("b", round), 5)
		if round > 0 {
			_ = a.take() // some are confirmed before garrisond is killed, some not
		}
		w.killed()
	}
	w.creates("c", 5)
	a.hasAll()
	a.connection.Close()
	w.creates("d", 3)
	a.connect()
	a.hasAll()
}

// The copy of a restored ledger is a new stream, without the consumers of the one before.
func TestTheCopyFollowsARestoredLedger(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{Audit: true})}
	w.creates("a", 5)
	a := w.audits()
	a.hasAll()
	file, data := filepath.Join(w.Dir, "backup"), filepath.Join(w.Dir, "restored")
	w.garrisond("backup", file, "--data", w.DataDir())
	w.creates("lost", 5)
	a.hasAll()
	scenario.Must(t, w.Garrisond.Stop())
	w.garrisond("restore", file, "--data", data)
	scenario.Must(t, os.Rename(w.DataDir(), w.DataDir()+"-before"))
	scenario.Must(t, os.Rename(data, w.DataDir()))
	scenario.Must(t, w.Start(t.Context()))

	a.Eventually("the consumer is gone", func() error {
		if _, err := a.js.Consumer(t.Context(), "AUDIT", "siem"); !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return fmt.Errorf("consumer: %w", err)
		}
		return nil
	})
	w.creates("later", 3)
	a.seen, a.confirmed = nil, 0
	a.consumes()
	a.hasAll()
}

// garrisond runs a command of garrisond.
func (w *world) garrisond(args ...string) {
	w.T.Helper()
	c := exec.CommandContext(w.T.Context(), filepath.Join(w.Bin, "garrisond"), args...)
	if out, err := c.CombinedOutput(); err != nil {
		w.T.Fatalf("garrisond %s: %v\n%s", args[0], err, out)
	}
}
