package fold_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// counting is a view that keeps each task's state and notes what it derived.
type counting struct {
	tasks  *fold.Table[*taskv1.Task]
	loaded bool
}

func newCounting() *counting { return &counting{tasks: fold.NewTable[*taskv1.Task]("task")} }

func (c *counting) Apply(f ledger.Fact) bool {
	switch body := f.Body.(type) {
	case *taskv1.Queued:
		if _, there := c.tasks.Get(f.Key); there {
			c.tasks.Touch(f.Key, f.Sequence)
			return false
		}
		c.tasks.Put(f.Key, &taskv1.Task{Id: f.Key, Agent: body.Agent, State: taskv1.State_STATE_QUEUED}, f.Sequence)
		return true
	case *taskv1.Cancelled:
		c.tasks.Drop(f.Key, f.Sequence)
		return true
	}
	return false
}

func (c *counting) Tables() []fold.Stored { return []fold.Stored{c.tasks} }

func (c *counting) Loaded() { c.loaded = true }

type harness struct {
	t    *testing.T
	conn *bus.Conn
	w    *bus.Writer
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	b := bustest.Start(t)
	c := b.Dial(t, "test")
	return &harness{t, c, b.Writer(t, c)}
}

func (h *harness) fact(key string, body any) ledger.Fact {
	f := ledger.Fact{Noun: ledger.Task, Key: key, ID: ident.New(), At: time.Now(), Source: "test", Actor: "test"}
	switch b := body.(type) {
	case *taskv1.Queued:
		f.Body = b
	case *taskv1.Cancelled:
		f.Body = b
	}
	return f
}

// queue records n tasks, side by side, and returns the end of the ledger.
func (h *harness) queue(prefix string, n int) uint64 {
	h.t.Helper()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			fact := h.fact(fmt.Sprintf("%s%d", prefix, i), &taskv1.Queued{Agent: "beacon"})
			if _, err := h.w.Append(h.t.Context(), ledger.Free(fact)); err != nil {
				h.t.Errorf("append: %v", err)
			}
		})
	}
	wg.Wait()
	end, err := h.conn.Stream(h.t.Context(), "LEDGER")
	if err != nil {
		h.t.Fatal(err)
	}
	return end.LastSequence
}

func (h *harness) follow(view fold.View, o fold.Options) (*fold.Follower, func()) {
	h.t.Helper()
	o.Service, o.Log = "test", zerolog.Nop()
	f := fold.New(h.conn, view, o)
	stop := bustest.Go(h.t, f.Run)
	select {
	case <-f.Ready():
	case <-time.After(time.Minute):
		h.t.Fatal("not ready after a minute")
	}
	return f, stop
}

func (h *harness) wait(f *fold.Follower, sequence uint64) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	if err := f.Wait(ctx, sequence); err != nil {
		h.t.Fatal(err)
	}
}

func TestReadyMeansThatEverythingBeforeIsThere(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	end := h.queue("a", 3000)
	v := newCounting()
	f, _ := h.follow(v, fold.Options{})
	f.Read(func() {
		if v.tasks.Len() != 3000 {
			t.Errorf("%d tasks when ready, want 3000", v.tasks.Len())
		}
	})
	if f.Position() != end {
		t.Errorf("at %d when ready, want %d", f.Position(), end)
	}
}

func TestAnEmptyLedgerIsReadyAtOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	f, _ := h.follow(newCounting(), fold.Options{})
	if f.Position() != 0 {
		t.Errorf("at %d, want 0", f.Position())
	}
}

func TestFactsAreFollowedAndToldInOrder(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.queue("before", 10)
	var mu sync.Mutex
	var seen []uint64
	f, _ := h.follow(newCounting(), fold.Options{OnFacts: func(facts []ledger.Fact) {
		mu.Lock()
		defer mu.Unlock()
		for _, fact := range facts {
			seen = append(seen, fact.Sequence)
		}
	}})
	end := h.queue("after", 500)
	h.wait(f, end)
	polltest.Eventually(t, "OnFacts has seen all live facts", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(seen) == 500
	})
	for i, seq := range seen {
		if want := uint64(11 + i); seq != want {
			t.Fatalf("fact %d seen has sequence %d, want %d", i, seq, want)
		}
	}
}

func TestAViewRebuiltHasTheSameBytes(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	v := newCounting()
	f, _ := h.follow(v, fold.Options{})
	h.queue("a", 700)
	for i := range 100 {
		fact := h.fact(fmt.Sprintf("a%d", i), &taskv1.Cancelled{})
		if _, err := h.w.Append(t.Context(), ledger.Free(fact)); err != nil {
			t.Fatal(err)
		}
	}
	h.wait(f, 800)
	position, live, err := f.Canonical()
	if err != nil || position != 800 {
		t.Fatalf("canonical at %d: %v", position, err)
	}
	h.queue("later", 50) // must not be seen by a rebuild up to position
	again := newCounting()
	if at, err := fold.RebuildTo(t.Context(), h.conn, again, fold.Options{Log: zerolog.Nop()}, position); err != nil ||
		at != position {
		t.Fatalf("rebuild: at %d, %v", at, err)
	}
	rebuilt, err := fold.CanonicalOf(again)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(live, rebuilt) {
		t.Errorf("live view has %d bytes, rebuilt one %d, and they differ", len(live), len(rebuilt))
	}
}

func TestASnapshotIsGoneOnFrom(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	dir := t.TempDir()
	f, stop := h.follow(newCounting(), fold.Options{Store: dir})
	h.wait(f, h.queue("a", 200))
	stop()
	end := h.queue("b", 100)

	v := newCounting()
	f, stop = h.follow(v, fold.Options{Store: dir})
	if !v.loaded {
		t.Error("the snapshot was not used")
	}
	h.wait(f, end)
	_, with, err := f.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	stop()
	fresh := newCounting()
	if _, err := fold.RebuildTo(t.Context(), h.conn, fresh, fold.Options{Log: zerolog.Nop()}, 0); err != nil {
		t.Fatal(err)
	}
	if without, _ := fold.CanonicalOf(fresh); !bytes.Equal(with, without) {
		t.Error("the view from a snapshot differs from the one without")
	}
}

func TestASnapshotThatIsNotWholeIsPassedOver(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	dir := t.TempDir()
	f, stop := h.follow(newCounting(), fold.Options{Store: dir})
	h.wait(f, h.queue("a", 50))
	stop()
	file := snapshotIn(t, dir)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(whole)
	flipped[len(flipped)/2] ^= 1
	for name, data := range map[string][]byte{
		"cut short": whole[:len(whole)/2], "a flipped bit": flipped, "empty": nil,
	} {
		t.Run(name, func(t *testing.T) {
			h.t = t
			if err := os.WriteFile(file, data, 0o600); err != nil {
				t.Fatal(err)
			}
			v := newCounting()
			_, stop := h.follow(v, fold.Options{Store: dir})
			defer stop()
			if v.loaded || v.tasks.Len() != 50 {
				t.Errorf("snapshot used: %v; %d tasks, want 50", v.loaded, v.tasks.Len())
			}
		})
	}
}

func TestWhatDoesNotFitIsCounted(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	f, _ := h.follow(newCounting(), fold.Options{})
	h.queue("a", 1)
	end := h.queue("a", 1) // the same task again
	h.wait(f, end)
	if f.Misfits() != 1 {
		t.Errorf("%d misfits, want 1", f.Misfits())
	}
}

func TestNounsThatAreNotHeardAreNotApplied(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	f := ledger.Fact{
		Noun:   ledger.Server,
		Key:    "s",
		Body:   &serverv1.Online{},
		ID:     ident.New(),
		At:     time.Now(),
		Source: "test",
		Actor:  "test",
	}
	end, err := h.w.Append(t.Context(), ledger.Free(f))
	if err != nil {
		t.Fatal(err)
	}
	follower, _ := h.follow(newCounting(), fold.Options{Nouns: []ledger.Noun{ledger.Task}})
	h.wait(follower, end)
	if follower.Misfits() != 0 {
		t.Errorf("%d misfits, want none", follower.Misfits())
	}
}

// A fact of a newer version must not make every later write on its key a conflict.
func TestAFactThatCannotBeReadMovesItsKey(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	v := newCounting()
	f, _ := h.follow(v, fold.Options{})
	h.queue("a", 1)
	end, err := h.conn.PublishDurable(t.Context(),
		bus.Durable{Subject: ledger.FactSubject(ledger.Task, "a0", "of-a-newer-version"), Data: []byte("?")})
	if err != nil {
		t.Fatal(err)
	}
	h.wait(f, end)
	var sequence uint64
	f.Read(func() { sequence = v.tasks.Sequence("a0") })
	if sequence != end || f.Misfits() != 1 {
		t.Fatalf("the key is at %d with %d misfits, want %d and 1", sequence, f.Misfits(), end)
	}
	if _, err := h.w.Append(t.Context(), ledger.OnKey(h.fact("a0", &taskv1.Cancelled{}), sequence)); err != nil {
		t.Errorf("the next fact on the key: %v", err)
	}
}
