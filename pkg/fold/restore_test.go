package fold_test

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/polltest"
)

// restored is a harness whose bus can go back to an earlier state, as after a backup
// was restored or a machine lost what it had not synced.
type restored struct {
	*harness
	bus    *bustest.Bus
	backup string
}

func newRestored(t *testing.T) *restored {
	t.Helper()
	b := bustest.Start(t)
	c := b.Dial(t, "test")
	return &restored{&harness{t, c, b.Writer(t, c)}, b, t.TempDir()}
}

func (r *restored) keepBackup() {
	r.t.Helper()
	r.bus.Restart(r.t, func(store string) {
		if err := os.CopyFS(r.backup, os.DirFS(store)); err != nil {
			r.t.Fatal(err)
		}
	})
	r.settled()
}

func (r *restored) restoreBackup() {
	r.t.Helper()
	r.bus.Restart(r.t, func(store string) {
		if err := os.RemoveAll(store); err != nil {
			r.t.Fatal(err)
		}
		if err := os.CopyFS(store, os.DirFS(r.backup)); err != nil {
			r.t.Fatal(err)
		}
	})
	r.settled()
}

// settled waits until the bus is back and its streams are.
func (r *restored) settled() {
	r.t.Helper()
	polltest.Eventually(r.t, "the bus is back", func() bool {
		_, err := r.conn.Stream(r.t.Context(), "LEDGER")
		return err == nil
	})
}

func (r *restored) fresh() []byte {
	r.t.Helper()
	v := newCounting()
	options := fold.Options{Service: "test", Log: zerolog.Nop()}
	if _, err := fold.RebuildTo(r.t.Context(), r.conn, v, options, 0); err != nil {
		r.t.Fatal(err)
	}
	encoding, err := fold.CanonicalOf(v)
	if err != nil {
		r.t.Fatal(err)
	}
	return encoding
}

// A view that holds facts which the ledger lost must no longer be believed, also
// when the ledger has grown beyond it again in the meantime.
func TestAFollowerEndsWhenTheLedgerWentBack(t *testing.T) {
	t.Parallel()
	r := newRestored(t)
	r.queue("a", 10)
	r.keepBackup()
	f := fold.New(r.conn, newCounting(), fold.Options{Service: "test", Log: zerolog.Nop()})
	ended := make(chan error, 1)
	go func() { ended <- f.Run(t.Context()) }()
	r.wait(f, r.queue("lost", 5))

	r.restoreBackup()
	r.queue("b", 8)
	select {
	case err := <-ended:
		if !fault.Is(err, fault.Conflict) {
			t.Errorf("ended with %v, want a conflict", err)
		}
	case <-time.After(time.Minute):
		_, have, _ := f.Canonical()
		t.Fatalf("still follows; its view is that of the ledger: %v", bytes.Equal(have, r.fresh()))
	}
}

func TestASnapshotOfWhatTheLedgerLostIsPassedOver(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]int{"the ledger is behind the snapshot": 2, "the ledger is beyond the " +
		"snapshot": 8} {
		t.Run(name, func(t *testing.T) {
			r := newRestored(t)
			store := t.TempDir()
			r.queue("a", 10)
			r.keepBackup()
			f, stop := r.follow(newCounting(), fold.Options{Store: store})
			r.wait(f, r.queue("lost", 5))
			stop() // writes the snapshot

			r.restoreBackup()
			end := r.queue("b", after)
			f, _ = r.follow(newCounting(), fold.Options{Store: store})
			r.wait(f, end)
			if _, have, err := f.Canonical(); err != nil || !bytes.Equal(have, r.fresh()) {
				t.Errorf("the view is not that of the ledger (%v)", err)
			}
		})
	}
}

// A short absence of the bus is no reason to begin again.
func TestAFollowerGoesOnAfterARestartOfTheBus(t *testing.T) {
	t.Parallel()
	r := newRestored(t)
	v := newCounting()
	f, _ := r.follow(v, fold.Options{})
	r.wait(f, r.queue("a", 10))
	r.bus.Restart(t, func(string) {})
	r.settled()
	r.wait(f, r.queue("b", 10))
	if f.Read(func() { t.Logf("%d tasks", v.tasks.Len()) }); v.tasks.Len() != 20 {
		t.Errorf("%d tasks after the restart, want 20", v.tasks.Len())
	}
}

var _ bus.InProcess = (*bustest.Bus)(nil)
