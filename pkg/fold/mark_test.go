package fold_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/fold"
)

func newDurable(t *testing.T) *restored {
	t.Helper()
	b := bustest.StartDurable(t)
	c := b.Dial(t, "test")
	return &restored{&harness{t, c, b.Writer(t, c)}, b, t.TempDir()}
}

// ends runs a follower until it ends by itself, and returns its refusal's code and text.
func (r *restored) ends(o fold.Options) (code, text string) {
	r.t.Helper()
	o.Service, o.Log = "test", zerolog.Nop()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	err := fold.New(r.conn, newCounting(), o).Run(ctx)
	if err == nil {
		r.t.Fatal("the follower went on")
	}
	return fault.RefusalOf(err).GetCode(), err.Error()
}

// flip changes one bit of a stored fact, as a bad disk does, and has the bus find out.
func flip(t *testing.T, store string, at float64) {
	t.Helper()
	dir := filepath.Join(store, "jetstream", "$G", "streams", "LEDGER", "msgs")
	blocks, err := filepath.Glob(filepath.Join(dir, "*.blk"))
	if err != nil || len(blocks) != 1 {
		t.Fatalf("blocks %v (%v), want one", blocks, err)
	}
	data, err := os.ReadFile(blocks[0])
	if err != nil {
		t.Fatal(err)
	}
	data[int(at*float64(len(data)))] ^= 1
	// The index is of the last clean stop; a bus that was killed has none that helps.
	if err := os.WriteFile(blocks[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "index.db")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
}

func TestALedgerThatLostItsEndWhileNobodyLookedStopsTheService(t *testing.T) {
	t.Parallel()
	r := newDurable(t)
	store := t.TempDir()
	f, stop := r.follow(newCounting(), fold.Options{Store: store})
	r.wait(f, r.queue("a", 50))
	stop()
	if err := os.Remove(snapshotIn(t, store)); err != nil { // as after a kill before the first snapshot
		t.Fatal(err)
	}
	r.bus.Restart(t, func(dir string) { flip(t, dir, 0.8) })
	r.settled()
	end, err := r.conn.Stream(t.Context(), "LEDGER")
	if err != nil || end.LastSequence == 0 || end.LastSequence >= 50 {
		t.Fatalf("the ledger ends at %d (%v), want it shorter than 50", end.LastSequence, err)
	}
	code, text := r.ends(fold.Options{Store: store})
	want := fmt.Sprintf("facts %d to 50 are gone", end.LastSequence+1)
	if code != "LEDGER_SHORT" || !strings.Contains(text, want) {
		t.Fatalf("%s: %s, want LEDGER_SHORT: %s", code, text, want)
	}
	if code, _ := r.ends(fold.Options{Store: store}); code != "LEDGER_SHORT" {
		t.Errorf("started again it ends with %s, want LEDGER_SHORT", code)
	}

	// Also when others have been written in their place.
	r.queue("b", 60)
	code, text = r.ends(fold.Options{Store: store})
	if code != "LEDGER_SHORT" || !strings.Contains(text, "another fact 50") {
		t.Errorf("%s: %s, want LEDGER_SHORT for another fact 50", code, text)
	}

	// Accepted once, it is followed, and later starts need no telling.
	for _, accept := range []bool{true, false} {
		f, stop := r.follow(newCounting(), fold.Options{Store: store, AcceptLedger: accept})
		if _, have, err := f.Canonical(); err != nil || !bytes.Equal(have, r.fresh()) {
			t.Errorf("accepted %v: the view is not that of the ledger (%v)", accept, err)
		}
		stop()
	}
}

func TestALedgerThatLostItsEndWhileItWasFollowedStopsTheServiceAndItsNextStart(t *testing.T) {
	t.Parallel()
	r := newDurable(t)
	store := t.TempDir()
	f := fold.New(r.conn, newCounting(), fold.Options{Service: "test", Store: store, Log: zerolog.Nop()})
	ended := make(chan error, 1)
	go func() { ended <- f.Run(t.Context()) }()
	r.wait(f, r.queue("a", 50))
	r.bus.Restart(t, func(dir string) { flip(t, dir, 0.8) })
	select {
	case err := <-ended:
		if fault.RefusalOf(err).GetCode() != "LEDGER_SHORT" {
			t.Errorf("ended with %v, want LEDGER_SHORT", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("still follows")
	}
	if code, _ := r.ends(fold.Options{Store: store}); code != "LEDGER_SHORT" {
		t.Errorf("the next start ends with %s, want LEDGER_SHORT", code)
	}
}

func TestAnotherLedgerInItsPlaceStopsTheService(t *testing.T) {
	t.Parallel()
	r := newDurable(t)
	store := t.TempDir()
	f, stop := r.follow(newCounting(), fold.Options{Store: store})
	r.wait(f, r.queue("a", 5))
	stop()
	other := newDurable(t)
	code, text := other.ends(fold.Options{Store: store})
	if code != "LEDGER_SHORT" || !strings.Contains(text, "is another one") {
		t.Errorf("%s: %s, want LEDGER_SHORT for another ledger", code, text)
	}
}

// A bus that is killed at any moment has everything that a mark names.
func TestAKillOfTheBusIsNoLoss(t *testing.T) {
	t.Parallel()
	r := newDurable(t)
	store := t.TempDir()
	for i := range 5 {
		f, stop := r.follow(newCounting(), fold.Options{Store: store})
		end := r.queue(fmt.Sprintf("k%d-", i), 20)
		r.wait(f, end)
		stop()
		r.bus.Restart(t, func(dir string) { // what a kill leaves: no index of a clean stop
			_ = os.Remove(filepath.Join(dir, "jetstream", "$G", "streams", "LEDGER", "msgs", "index.db"))
		})
		r.settled()
	}
}

// A bus that acknowledges what is not on its disk may lose it, and was chosen so.
func TestALedgerThatIsNotSyncedLeavesNoMark(t *testing.T) {
	t.Parallel()
	r := newRestored(t)
	store := t.TempDir()
	f, stop := r.follow(newCounting(), fold.Options{Store: store})
	r.wait(f, r.queue("a", 5))
	stop()
	if _, err := os.Stat(filepath.Join(store, "test.mark")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a mark was left (%v)", err)
	}
}

func TestAMarkThatIsDamagedNamesNoLoss(t *testing.T) {
	t.Parallel()
	r := newDurable(t)
	store := t.TempDir()
	f, stop := r.follow(newCounting(), fold.Options{Store: store})
	r.wait(f, r.queue("a", 15))
	stop()
	file := filepath.Join(store, "test.mark")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"empty":          nil,
		"cut":            whole[:len(whole)/2],
		"another number": bytes.Replace(whole, []byte(`"sequence":15`), []byte(`"sequence":95`), 1),
	} {
		t.Run(name, func(t *testing.T) {
			if bytes.Equal(data, whole) {
				t.Fatal("not damaged")
			}
			if err := os.WriteFile(file, data, 0o600); err != nil {
				t.Fatal(err)
			}
			_, stop := r.follow(newCounting(), fold.Options{Store: store})
			stop()
		})
	}
}

func TestAGapInTheLedgerStopsTheServiceUntilItIsAccepted(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string][]uint64{"in the middle": {4, 5}, "at the start": {1}, "at the end": {10}} {
		t.Run(name, func(t *testing.T) {
			b := bustest.StartWithoutGuard(t)
			c := b.Dial(t, "test")
			r := &restored{&harness{t, c, b.Writer(t, c)}, b, t.TempDir()}
			r.queue("a", 10)
			b.Delete(t, gone...)
			store := t.TempDir()
			want := fmt.Sprintf("%d are missing", len(gone))
			if code, text := r.ends(fold.Options{Store: store}); code != "LEDGER_GAP" || !strings.Contains(text, want) {
				t.Fatalf("%s: %s, want LEDGER_GAP: %s", code, text, want)
			}
			for _, accept := range []bool{true, false} {
				v := newCounting()
				f, stop := r.follow(v, fold.Options{Store: store, AcceptLedger: accept})
				f.Read(func() {
					if v.tasks.Len() != 10-len(gone) {
						t.Errorf("accepted %v: %d tasks, want %d", accept, v.tasks.Len(), 10-len(gone))
					}
				})
				stop()
			}
			f, _ := r.follow(newCounting(), fold.Options{Store: store})
			r.wait(f, r.queue("b", 3)) // and it goes on
		})
	}
}
