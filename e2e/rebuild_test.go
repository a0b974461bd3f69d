package e2e_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/e2e/fleet"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// equalViews compares every service's live view with one rebuilt in a fresh process.
func (w *world) equalViews() {
	w.t.Helper()
	c := w.client()
	for _, service := range topology.Services {
		live, err := client.CallService[*apiv1.ViewResponse](w.t.Context(), c, service, &apiv1.ViewRequest{})
		if err != nil {
			w.t.Fatal(err)
		}
		file := filepath.Join(w.Dir, service+".view")
		if _, err := w.View(w.t.Context(), service, live.Position, file); err != nil {
			w.t.Fatal(err)
		}
		rebuilt, err := os.ReadFile(file)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(live.Canonical) == 0 || !bytes.Equal(live.Canonical, rebuilt) {
			w.t.Errorf("%s at %d: %d bytes live, %d rebuilt, and they differ", service, live.Position,
				len(live.Canonical), len(rebuilt))
		}
	}
}

func TestEveryViewCanBeRebuiltByteForByte(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fleet.Options{}, "alpha", "bravo")
	w.ok("install", "beacon@1.0.0", "--on", "all")
	w.ok("up", "beacon@2.0.0", "--on", "alpha", "--yes")
	w.ok("remove", "beacon", "--on", "bravo", "--yes")
	w.ok("server", "label", "alpha", "rack=a")
	w.equalViews()

	// Also when the live views come from snapshots.
	if err := w.Garrisond.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.ok("server", "label", "alpha", "rack=b")
	w.equalViews()
	w.holds()
}
