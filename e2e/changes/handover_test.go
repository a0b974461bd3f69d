package changes_test

import (
	"errors"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/e2e/handover"
	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/rig/load"
	"github.com/garrison-fleet/garrison/e2e/scenario"
)

var errFew = errors.New("too few requests so far")

var someLoad = load.Clients{Quick: 4, Slow: 3, Every: 10 * time.Millisecond}

// Upgrades of an agent whose socket is passed on lose no request.
func TestUpgradesLoseNoRequest(t *testing.T) {
	t.Parallel()
	for _, takeover := range []string{"overlap", "restart"} {
		t.Run(takeover, func(t *testing.T) {
			t.Parallel()
			w := &world{scenario.New(t, rig.Options{}, "alpha")}
			scenario.Must(t, handover.Prepare(t.Context(), w.Fleet, handover.Way{Takeover: takeover}))
			count, err := handover.Run(t.Context(), w.Fleet, w.Servers[0], 5, someLoad, func(int) {})
			if err != nil {
				t.Fatal(err)
			}
			if err := count.Err(); err != nil {
				t.Error(err)
			}
			for _, v := range handover.Versions {
				if count.Answers[v] == 0 {
					t.Errorf("version %s answered no request: %v", v, count.Answers)
				}
			}
			t.Logf("%d requests, the longest took %v", count.Requests, count.Longest)
			w.Holds()
		})
	}
}

// A killed executor leaves the socket with the agent, takes the same one back when it is
// started again, and passes it on.
func TestAKilledExecutorTakesTheSocketBack(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha")}
	scenario.Must(t, handover.Prepare(t.Context(), w.Fleet, handover.Way{Takeover: "overlap"}))
	s := w.Servers[0]
	w.OK("install", "beacon@"+handover.Versions[0], "--on", "all")
	traffic := load.Begin(s.URL(), someLoad)
	asked := func(more int) {
		before := traffic.Requests()
		w.Eventually("more requests", func() error {
			if traffic.Requests() < before+more {
				return errFew
			}
			return nil
		})
	}
	asked(100)
	for n := range 2 {
		scenario.Must(t, s.Executor.Kill())
		asked(100)
		scenario.Must(t, s.Executor.Start())
		w.OK("up", "beacon@"+handover.Versions[(n+1)%2], "--on", "all", "--yes")
		w.Converges(handover.Versions[(n+1)%2])
		asked(100)
	}
	if err := traffic.Stop().Err(); err != nil {
		t.Error(err)
	}
	w.Holds()
}
