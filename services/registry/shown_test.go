package registry

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/topology"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// A list that was made before the end of a task showed the agent may come after it: it was delayed, or the bus forgot
// and received it again.
func TestAListThatIsOlderThanWhatATaskShowedSaysNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		number uint64
		at     time.Duration // since the task showed the agent
		counts bool
	}{
		"before it":                {shownReport - 1, -time.Minute, false},
		"after it":                 {shownReport + 1, time.Minute, true},
		"of a disk that was reset": {shownReport - 1, time.Minute, true},
		"of a clock that was set":  {shownReport + 1, -time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, id := installed(t, "web", "other")
			image := s.instance("other").Wanted
			s.report(topology.ReportAgents, &reportv1.Report{
				ServerId: id, Sequence: c.number, At: timestamppb.New(shownAt.Add(c.at)),
				Body: &reportv1.Report_Agents{Agents: &reportv1.AgentsReport{Agents: []*reportv1.Found{
					{Agent: "other", Image: image, Health: instancev1.Health_HEALTH_GOOD},
					{Agent: "stray", Trace: serverv1.Trace_TRACE_PROCESS},
				}}},
			})
			s.untilFound(id, "stray") // the list was handled
			want := instancev1.Health_HEALTH_GOOD
			if c.counts {
				want = instancev1.Health_HEALTH_ABSENT
			}
			if i := s.instance("web"); i.Health != want {
				t.Errorf("web is %v, want %v", i.Health, want)
			}
		})
	}
}
