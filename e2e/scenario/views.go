package scenario

import (
	"bytes"
	"os"
	"path/filepath"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/topology"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
)

// EqualViews compares every service's live view with one rebuilt in a fresh process.
func (w *World) EqualViews() {
	w.T.Helper()
	c := w.Operator()
	for _, service := range topology.Services {
		live, err := client.CallService[*apiv1.ViewResponse](w.T.Context(), c, service, &apiv1.ViewRequest{})
		if err != nil {
			w.T.Fatal(err)
		}
		file := filepath.Join(w.Dir, service+".view")
		if _, err := w.View(w.T.Context(), service, live.Position, file); err != nil {
			w.T.Fatal(err)
		}
		rebuilt, err := os.ReadFile(file)
		if err != nil {
			w.T.Fatal(err)
		}
		if len(live.Canonical) == 0 || !bytes.Equal(live.Canonical, rebuilt) {
			w.T.Errorf("%s at %d: %d bytes live, %d rebuilt, and they differ", service, live.Position,
				len(live.Canonical), len(rebuilt))
		}
	}
}
