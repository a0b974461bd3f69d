package faults_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/e2e/failover"
	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
)

// Three garrisonds are one site: an upgrade ends whichever of them is killed in its middle, nothing is done twice
// although each runs every service, and an operator who knew the killed one reaches another.
func TestThreeGarrisondsAreOneSiteWhicheverIsKilled(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{Cluster: true}, "alpha", "bravo", "charlie")}
	w.OK("install", "beacon@1.0.0", "--on", "all")
	w.Converges("1.0.0")
	want := []string{"2.0.0", "1.0.0"}
	for n, member := range w.Members {
		t.Run(fmt.Sprintf("member %d", n+1), func(t *testing.T) {
			w.OK("up", "beacon@"+want[n%2], "--on", "all", "--yes", "--detach")
			scenario.Must(t, member.Kill())
			w.Converges(want[n%2])
			w.Fails(3, "server-away", "bus")
			scenario.Must(t, member.Start())
			w.Eventually("nothing is wrong with the bus", func() error {
				_, err := w.CLI(t.Context(), "bus")
				return err
			})
		})
	}
	w.Holds()
}

// `make cluster-test` loses every server of the bus in every way, under more load, and measures how long that takes.
func TestTheLossOfAServerOfTheBusUnderLoadLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	f := scenario.Simulated(t, rig.Options{Cluster: true, Beat: 5 * time.Second})
	rows, err := failover.Run(t.Context(), f, failover.Options{
		Servers: 30, Every: 300 * time.Millisecond, Lasts: 5 * time.Second, Within: 3 * time.Minute,
		Losses: []failover.Loss{{Kind: failover.Killed, Member: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := failover.Judge(rows); err != nil || len(rows) != 1 {
		t.Errorf("%d rows: %v", len(rows), err)
	}
}
