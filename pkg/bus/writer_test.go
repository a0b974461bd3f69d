package bus_test

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// queued makes a fact about a task, for tests that do not care which.
func queued(key string) ledger.Fact {
	return ledger.Fact{
		Noun: ledger.Task, Key: key, Body: &taskv1.Queued{Agent: "beacon"},
		ID: ident.New(), At: time.Now(), Source: ledger.Dispatcher, Actor: "test",
	}
}

func started(t *testing.T) (*bus.Conn, *bus.Writer) {
	t.Helper()
	b := bustest.Start(t)
	c := b.Dial(t, "test")
	return c, b.Writer(t, c)
}

func TestOneFactIsRecordedWithItsSequence(t *testing.T) {
	t.Parallel()
	c, w := started(t)
	for want := uint64(1); want <= 3; want++ {
		got, err := w.Append(t.Context(), ledger.Free(queued("a")))
		if err != nil || got != want {
			t.Fatalf("Append: sequence %d, error %v; want %d", got, err, want)
		}
	}
	if end, err := c.Stream(t.Context(), topology.Ledger); err != nil || end.LastSequence != 3 {
		t.Fatalf("the ledger ends at %d (%v), want 3", end.LastSequence, err)
	}
}

func TestFactsOfOneAppendStandNextToEachOther(t *testing.T) {
	t.Parallel()
	c, w := started(t)
	var wg sync.WaitGroup
	for u := range 20 {
		wg.Go(func() {
			var drafts []ledger.Draft
			for i := range 7 {
				drafts = append(drafts, ledger.OnKey(queued(fmt.Sprintf("u%d-%d", u, i)), 0))
			}
			last, err := w.Append(t.Context(), drafts...)
			if err != nil {
				t.Errorf("append unit %d: %v", u, err)
				return
			}
			msgs, err := c.DirectGetFrom(t.Context(), topology.Ledger, topology.LedgerSubjects, last-6, 7)
			if err != nil || len(msgs) != 7 {
				t.Errorf("read unit %d back: %d messages, %v", u, len(msgs), err)
				return
			}
			for i, m := range msgs {
				if want := ledger.FactSubject(ledger.Task, fmt.Sprintf("u%d-%d", u, i), "queued"); m.Subject != want {
					t.Errorf("at %d: %s, want %s", m.Sequence, m.Subject, want)
				}
			}
		})
	}
	wg.Wait()
}

func TestOfManyWritersOnOneKeyOneWins(t *testing.T) {
	t.Parallel()
	for _, facts := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d facts", facts), func(t *testing.T) {
			_, w := started(t)
			var mu sync.Mutex
			won, lost := 0, 0
			var wg sync.WaitGroup
			for i := range 30 {
				wg.Go(func() {
					drafts := []ledger.Draft{ledger.OnKey(queued("contended"), 0)}
					for n := range facts - 1 {
						drafts = append(drafts, ledger.Free(queued(fmt.Sprintf("free-%d-%d", i, n))))
					}
					_, err := w.Append(t.Context(), drafts...)
					mu.Lock()
					defer mu.Unlock()
					switch {
					case err == nil:
						won++
					case fault.Is(err, fault.Conflict):
						lost++
					default:
						t.Errorf("append: %v", err)
					}
				})
			}
			wg.Wait()
			if won != 1 || lost != 29 {
				t.Errorf("%d won and %d lost, want 1 and 29", won, lost)
			}
		})
	}
}

func TestAConflictFailsItsOwnAppendOnly(t *testing.T) {
	t.Parallel()
	_, w := started(t)
	if _, err := w.Append(t.Context(), ledger.OnKey(queued("taken"), 0)); err != nil {
		t.Fatal(err)
	}
	const units = 200 // enough for one atomic batch
	errs := make([]error, units)
	var wg sync.WaitGroup
	for i := range units {
		wg.Go(func() {
			key := fmt.Sprintf("k%d", i)
			if i%50 == 0 {
				key = "taken"
			}
			_, errs[i] = w.Append(t.Context(), ledger.OnKey(queued(key), 0), ledger.Free(queued(fmt.Sprintf("f%d", i))))
		})
	}
	wg.Wait()
	for i, err := range errs {
		if conflict := i%50 == 0; conflict != fault.Is(err, fault.Conflict) || (!conflict && err != nil) {
			t.Errorf("unit %d: %v, want a conflict: %v", i, err, conflict)
		}
	}
}

func TestAWildcardGuardSeesEveryKey(t *testing.T) {
	t.Parallel()
	_, w := started(t)
	first, err := w.Append(t.Context(), ledger.Free(queued("a")))
	if err != nil {
		t.Fatal(err)
	}
	guarded := func(key string, at uint64) ledger.Draft {
		return ledger.Draft{
			Fact:  queued(key),
			Guard: ledger.Guard{Subject: ledger.FactSubject(ledger.Task, "*", "queued"), Sequence: at},
		}
	}
	second, err := w.Append(t.Context(), guarded("b", first))
	if err != nil {
		t.Fatalf("with the right sequence: %v", err)
	}
	if _, err := w.Append(t.Context(), guarded("c", first)); !fault.Is(err, fault.Conflict) {
		t.Errorf("with a stale sequence: %v, want a conflict", err)
	}
	if _, err := w.Append(t.Context(), guarded("d", second), ledger.OnKey(queued("e"), 0)); err != nil {
		t.Errorf("in a batch: %v", err)
	}
}

// under drafts a fact on condition that nothing newer is at one subject, which it does not write.
func under(f ledger.Fact, at uint64) ledger.Draft {
	return ledger.Draft{
		Fact:  f,
		Guard: ledger.Guard{Subject: ledger.FactSubject(ledger.Task, "fence", "queued"), Sequence: at},
	}
}

func TestManyFactsUnderOneGuardThatNoneWritesGoTogether(t *testing.T) {
	t.Parallel()
	for _, facts := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d facts", facts), func(t *testing.T) {
			b := bustest.Start(t)
			c := b.Dial(t, "test")
			fence, err := b.Writer(t, b.Dial(t, "other")).Append(t.Context(), ledger.Free(queued("fence")))
			if err != nil {
				t.Fatal(err)
			}
			w := c.NewWriter()
			const units = 200
			var wg sync.WaitGroup
			for i := range units {
				wg.Go(func() {
					var drafts []ledger.Draft
					for n := range facts {
						drafts = append(drafts, under(queued(fmt.Sprintf("k%d-%d", i, n)), fence))
					}
					if _, err := w.Append(t.Context(), drafts...); err != nil {
						t.Errorf("append: %v", err)
					}
				})
			}
			polltest.Eventually(t, "all wait", func() bool { return w.Waiting() == units })
			bustest.Go(t, w.Run)
			wg.Wait()
			if n := batches(t, c); n != 2 { // the fence, and all that waited: they fit one batch
				t.Errorf("%d units went in %d batches, want 1", units, n-1)
			}
			if end, _ := c.Stream(t.Context(), topology.Ledger); end.LastSequence != uint64(1+units*facts) {
				t.Errorf("the ledger ends at %d, want %d", end.LastSequence, 1+units*facts)
			}
		})
	}
}

// batches counts the batches in which the messages of the ledger were stored; a message without one is one.
func batches(t *testing.T, c *bus.Conn) int {
	t.Helper()
	ids := map[string]bool{}
	for from := uint64(1); ; {
		messages, err := c.DirectGetFrom(t.Context(), topology.Ledger, ">", from, 256)
		if err != nil {
			t.Fatal(err)
		}
		if len(messages) == 0 {
			return len(ids)
		}
		for _, m := range messages {
			ids[cmp.Or(m.Get("Nats-Batch-Id"), fmt.Sprint("alone ", m.Sequence))] = true
			from = m.Sequence + 1
		}
	}
}

func TestNothingIsRecordedUnderAFenceThatMoved(t *testing.T) {
	t.Parallel()
	c, w := started(t)
	fence, err := w.Append(t.Context(), ledger.Free(queued("fence")))
	if err != nil {
		t.Fatal(err)
	}
	const units = 100
	last, moved := make([]uint64, units), uint64(0)
	var wg sync.WaitGroup
	for i := range units {
		wg.Go(func() {
			var err error
			if i == units/2 { // among them, one that moves the fence
				moved, err = w.Append(t.Context(), under(queued("fence"), fence))
			} else {
				fact, guard := queued(fmt.Sprintf("k%d", i)), queued(fmt.Sprintf("f%d", i))
				last[i], err = w.Append(t.Context(), under(fact, fence), ledger.Free(guard))
			}
			if err != nil && !fault.Is(err, fault.Conflict) {
				t.Errorf("append: %v", err)
			}
		})
	}
	wg.Wait()
	if moved == 0 {
		t.Fatal("the fence did not move")
	}
	won := uint64(0)
	for i, at := range last {
		if at > moved {
			t.Errorf("unit %d is recorded at %d, behind the move of the fence at %d", i, at, moved)
		}
		if at > 0 {
			won++
		}
	}
	if end, _ := c.Stream(t.Context(), topology.Ledger); end.LastSequence != 2+2*won {
		t.Errorf("the ledger ends at %d with %d units recorded", end.LastSequence, won)
	}
}

func TestOfTwoThatGuardTheSameKeyAtTheSameSequenceOneWins(t *testing.T) {
	t.Parallel()
	_, w := started(t)
	at := uint64(0)
	for round := range 50 {
		type outcome struct {
			last uint64
			err  error
		}
		outcomes := make(chan outcome, 2)
		for n := range 2 {
			go func() {
				// One fact in even rounds and an atomic batch in odd ones.
				drafts := []ledger.Draft{
					ledger.Free(queued(fmt.Sprintf("by%d", n))),
					ledger.OnKey(queued("contended"), at),
				}
				last, err := w.Append(t.Context(), drafts[1-round%2:]...)
				outcomes <- outcome{last, err}
			}()
		}
		one, two := <-outcomes, <-outcomes
		if (one.err == nil) == (two.err == nil) || !fault.Is(cmp.Or(one.err, two.err), fault.Conflict) {
			t.Fatalf("round %d: %v and %v, want one conflict", round, one.err, two.err)
		}
		at = max(one.last, two.last)
	}
}

func TestAFactRecordedTwiceIsThereOnce(t *testing.T) {
	t.Parallel()
	c, w := started(t)
	f := queued("a")
	first, err := w.Append(t.Context(), ledger.Free(f))
	if err != nil {
		t.Fatal(err)
	}
	again, err := w.Append(t.Context(), ledger.Free(f))
	if err != nil || again != first {
		t.Errorf("the same fact again: sequence %d, error %v; want %d", again, err, first)
	}
	batch := []ledger.Draft{ledger.Free(queued("x")), ledger.Free(queued("y"))}
	first, err = w.Append(t.Context(), batch...)
	if err != nil {
		t.Fatal(err)
	}
	again, err = w.Append(t.Context(), batch...)
	if err != nil || again != first {
		t.Errorf("the same facts again: sequence %d, error %v; want %d", again, err, first)
	}
	if end, _ := c.Stream(t.Context(), topology.Ledger); end.LastSequence != 3 {
		t.Errorf("the ledger ends at %d, want 3", end.LastSequence)
	}
}

func TestAppendWithoutAWriterEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	w := b.Dial(t, "test").NewWriter()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := w.Append(ctx, ledger.Free(queued("a"))); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Append: %v, want unavailable", err)
	}
}

func TestWhatStillWaitsIsAnsweredWhenTheWriterStops(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	w := b.Dial(t, "test").NewWriter()
	const waiting = 20
	answers := make(chan error, waiting)
	for i := range waiting {
		go func() {
			_, err := w.Append(t.Context(), ledger.Free(queued(fmt.Sprintf("k%d", i))))
			answers <- err
		}()
	}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }()
	cancel()
	<-stopped
	for range waiting {
		select {
		case err := <-answers:
			if err != nil && !fault.Is(err, fault.Unavailable) {
				t.Errorf("answered with %v", err)
			}
		case <-time.After(time.Minute):
			t.Fatal("an append was not answered")
		}
	}
}

// A process that is stopped while the bus is disconnected must not wait for the bus until the
// appends that are under way give up.
func TestAWriterStopsWhileTheBusIsAway(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	w := b.Dial(t, "test").NewWriter()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	if _, err := w.Append(t.Context(), ledger.Free(queued("before"))); err != nil {
		t.Fatal(err)
	}
	b.Restart(t, func(string) {
		appended := make(chan error, 1)
		go func() {
			_, err := w.Append(context.Background(), ledger.Free(queued("away")))
			appended <- err
		}()
		time.Sleep(100 * time.Millisecond) // it is tried by now
		stop()
		for what, done := range map[string]chan error{"the writer has": ended, "the append has": appended} {
			select {
			case <-done:
			case <-time.After(4 * time.Second):
				t.Errorf("%s not ended 4 s after it was stopped", what)
			}
		}
	})
}
