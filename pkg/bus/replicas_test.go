package bus_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// Three servers look at ids and guards in another order than one. What a writer asks them
// about a fact must not keep that fact from being recorded.
func TestThreeServersAnswerAWriterAsOneDoes(t *testing.T) {
	t.Parallel()
	conn := bustest.StartCluster(t).Dial(t, "test")
	w := conn.NewWriter()
	bustest.Go(t, w.Run)
	record := func(drafts ...ledger.Draft) (uint64, error) { return w.Append(t.Context(), drafts...) }
	a := queued("a")
	first, err := record(ledger.OnKey(a, 0))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := record(ledger.OnKey(a, 0)); err != nil || again != first {
		t.Errorf("the same again: %d, %v; it is stored at %d", again, err, first)
	}
	other := queued("a")
	for range 2 { // each time the bus is asked for it
		if _, err := record(ledger.OnKey(other, 0)); !fault.Is(err, fault.Conflict) {
			t.Errorf("against the guard: %v, want a conflict", err)
		}
	}
	second, err := record(ledger.OnKey(other, first))
	if err != nil || second <= first {
		t.Errorf("with the right guard, after it was asked for: %d, %v", second, err)
	}
	unit := []ledger.Draft{ledger.OnKey(queued("b"), 0), ledger.OnKey(queued("c"), 0)}
	last, err := record(unit...)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := record(unit...); err != nil || again != last {
		t.Errorf("the same unit again: %d, %v; it ends at %d", again, err, last)
	}
	part := []ledger.Draft{ledger.Free(queued("d")), ledger.Free(other)}
	if last, err := record(part...); !fault.Is(err, fault.Conflict) {
		t.Errorf("a unit that is stored in part: %d, %v; want a conflict", last, err)
	}
}

// Side by side, three servers refuse all but one of them at a time: the admission of twenty tasks took 5 s.
func TestAClusterTakesFactsUnderOneGuardAtOnce(t *testing.T) {
	t.Parallel()
	c := bustest.StartCluster(t)
	w := c.Dial(t, "test").NewWriter()
	draft := func(key string) ledger.Draft {
		return ledger.Free(ledger.Fact{
			Noun: ledger.Task, Key: key, Body: &taskv1.Queued{}, ID: ident.New(), At: time.Now(),
			Source: ledger.Dispatcher, Actor: "test",
		})
	}
	stop := bustest.Go(t, w.Run)
	claim, err := w.Append(t.Context(), draft("claim"))
	stop()
	if err != nil {
		t.Fatal(err)
	}
	const n = 20
	w = c.Dial(t, "test").NewWriter()
	sequences := make([]uint64, n)
	var g errgroup.Group
	for i := range n {
		g.Go(func() (err error) {
			d := draft(fmt.Sprint("t", i))
			d.Guard = ledger.Guard{Subject: ledger.FactSubject(ledger.Task, "claim", "queued"), Sequence: claim}
			sequences[i], err = w.Append(t.Context(), d)
			return err
		})
	}
	polltest.Eventually(t, "all wait", func() bool { return w.Waiting() == n })
	bustest.Go(t, w.Run)
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(sequences)
	for i, s := range sequences {
		if s != claim+1+uint64(i) {
			t.Fatalf("stored at %v, want %d facts behind %d", sequences, n, claim)
		}
	}
}
