package bus_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
)

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
