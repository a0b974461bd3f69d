package console

import (
	"strings"
	"testing"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// A plan has the notes that the CLI prints with --dry-run.
func TestAPlanHasItsNotes(t *testing.T) {
	t.Parallel()
	pairs := planPairs(&registryv1.PlanRolloutResponse{
		Waves: []uint32{1, 4}, Unlabelled: []string{"label.rack"}, MoreValues: 3,
		Beside: []*registryv1.BesideRollout{{RolloutId: "0195d5a0", Title: "up tracer", Left: 2, Servers: 1}},
		Steps: []*intentv1.Plan{{
			Agent: "beacon", Offline: 5, OfflineServers: []string{"a", "b", "c", "d"},
			Chosen: []*intentv1.Chosen{{OutsideChannel: "late", Image: &imagev1.Ref{Version: "2.0.0"}}},
		}},
	})
	var text strings.Builder
	for _, is := range pairs {
		text.WriteString(is.Name + ": " + is.Text + "\n")
	}
	for _, want := range []string{
		"wave 2: 4 servers", "Notes: beside it: rollout ", "note: none of these servers has label.rack",
		"note: beacon@2.0.0 for ", " is not in channel late", "5 servers are offline", "(a, b, c and 2 more)",
		"… and 3 more changes of values",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the plan does not say %q:\n%s", want, text.String())
		}
	}
}
