package fold_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/debug"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/polltest"
)

// shown is what a debug socket returns of a view.
type shown struct {
	Position uint64
	Tables   []struct {
		Noun               string
		Records, Truncated int
		Rows               []struct {
			Key      string
			Sequence uint64
			Record   struct{ ID, Agent string }
		}
	}
}

func TestTheDebugSocketShowsBoundedRowsAtOnePosition(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	f, _ := h.follow(newCounting(), fold.Options{})
	end := h.queue("t", 12)
	h.wait(f, end)
	socket := filepath.Join(t.TempDir(), "debug.sock")
	var state debug.State
	f.Show(state.Under("test"))
	t.Cleanup(debug.Start(context.WithoutCancel(t.Context()), socket, &state, zerolog.Nop()))
	get := func(path string, to any) error {
		data, err := debug.Get(t.Context(), socket, "/state/test."+path)
		if err != nil {
			return err
		}
		return json.Unmarshal(data, to)
	}
	var progress map[string]any
	polltest.Eventually(t, "the socket answers", func() bool { return get("fold", &progress) == nil })
	if progress["position"] != float64(end) || progress["ready"] != true {
		t.Errorf("the fold is %v", progress)
	}

	// Keys are sorted as text: t0, t1, t10, t11, t2 …
	for query, want := range map[string]string{
		"":                             "12 rows from t0 to t9, 0 more",
		"?noun=task&limit=3":           "3 rows from t0 to t10, 9 more",
		"?noun=task&limit=3&after=t10": "3 rows from t11 to t3, 6 more",
		"?limit=3&after=t7":            "2 rows from t8 to t9, 0 more",
	} {
		var v shown
		if err := get("view"+query, &v); err != nil || len(v.Tables) != 1 {
			t.Fatalf("%s: %v, %+v", query, err, v)
		}
		table := v.Tables[0]
		first, last := table.Rows[0], table.Rows[len(table.Rows)-1]
		got := fmt.Sprintf("%d rows from %s to %s, %d more", len(table.Rows), first.Key, last.Key, table.Truncated)
		if got != want || v.Position != end || table.Noun != "task" || table.Records != 12 {
			t.Errorf("%s: %s, want %s, in %+v", query, got, want, v)
		}
		if first.Record.ID != first.Key || first.Record.Agent != "beacon" || first.Sequence == 0 {
			t.Errorf("%s: row %+v", query, first)
		}
	}
	for _, query := range []string{"?noun=planet", "?limit=0", "?limit=1001", "?limit=many"} {
		if err := get("view"+query, &shown{}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", query, err)
		}
	}
	if err := get("viev", &shown{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("an unknown part: %v", err)
	}
}
