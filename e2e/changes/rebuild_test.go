package changes_test

import (
	"testing"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
)

func TestEveryViewCanBeRebuiltByteForByte(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha", "bravo")}
	w.OK("install", "beacon@1.0.0", "--on", "all")
	w.OK("up", "beacon@2.0.0", "--on", "alpha", "--yes")
	w.OK("remove", "beacon", "--on", "bravo", "--yes")
	w.OK("server", "set", "alpha", "rack=a")
	w.EqualViews()

	// Also when the live views come from snapshots.
	scenario.Must(t, w.Garrisond.Stop())
	scenario.Must(t, w.Start(t.Context()))
	w.OK("server", "set", "alpha", "rack=b")
	w.EqualViews()
	w.Holds()
}
