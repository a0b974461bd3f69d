package faults_test

import (
	"fmt"
	"testing"

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
			if err := member.Kill(); err != nil {
				t.Fatal(err)
			}
			w.Converges(want[n%2])
			w.Fails(3, "server-away", "bus", "status")
			if err := member.Start(); err != nil {
				t.Fatal(err)
			}
			w.Eventually("nothing is wrong with the bus", func() error {
				_, err := w.CLI(t.Context(), "bus", "status")
				return err
			})
		})
	}
	w.Holds()
}
