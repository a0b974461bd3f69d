package epoch

import (
	"fmt"
	"slices"
	"testing"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

func TestALossNamesWhatAcceptingItWouldChange(t *testing.T) {
	t.Parallel()
	one, two := &imagev1.Ref{Id: "1", Digest: []byte("1")}, &imagev1.Ref{Id: "2", Digest: []byte("2")}
	loss := Loss(&serverv1.Server{Found: []*serverv1.FoundAgent{
		{Agent: "lost", Trace: serverv1.Trace_TRACE_INSTANCE}, {Agent: "stray", Trace: serverv1.Trace_TRACE_PROCESS},
	}}, slices.Values([]*instancev1.Instance{
		{Agent: "replaced", Wanted: one, Observed: two}, {Agent: "removed", Observed: one},
		{Agent: "installed", Wanted: one}, {Agent: "same", Wanted: one, Observed: one}, {Agent: "gone"},
	}))
	var have []string
	for _, a := range loss.Agents {
		have = append(have, fmt.Sprint(a.Agent, " ", int(a.Change)))
	}
	want := []string{"installed 1", "lost 0", "removed 3", "replaced 2"}
	if !slices.Equal(have, want) || loss.Same != 2 {
		t.Errorf("%v, and %d the same; want %v and 2", have, loss.Same, want)
	}
}
