package faults_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/e2e/chaos"
	"github.com/garrison-fleet/garrison/e2e/scenario"
)

// Two short rounds of what `make chaos` does at length, always with the same schedule.
func TestNothingIsLostInChaos(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		apart bool
		kind  chaos.Kind
	}{
		{"services apart", true, chaos.Kills},
		{"one process", false, chaos.Mixed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, err := chaos.New(t.Context(),
				chaos.Options{Bin: scenario.Bin, Dir: scenario.ShortDir(t), Apart: c.apart, Servers: 3, Log: os.Stderr})
			t.Cleanup(func() {
				if err := w.Close(); err != nil {
					t.Errorf("stop the fleet: %v", err)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range chaos.Schedule(1, 1, 8*time.Second, []chaos.Kind{c.kind}, c.apart) {
				res, err := w.Run(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				for _, wrong := range res.Wrong {
					t.Error(wrong)
				}
				fmt.Fprintf(os.Stderr, "%s: %d facts, quiet after %v\n", c.name, res.Facts,
					res.Quiet.Round(time.Second))
			}
		})
	}
}
