package registry

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// The task of a slow server expired, and the report that shows what it brought came later. No list follows.
func TestALateSuccessShowsWhatItBrought(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.channel("release", true)
	id := s.server("one")
	s.agent("web")
	s.image("web", "1.0.0", "release")
	s.accepted(topology.VerbInstall, install("web", on("one")))
	facts := task(taskv1.Verb_VERB_INSTALL, s.instance("web"))
	end, _ := facts[2].Fact.Body.(*taskv1.Succeeded)
	key := facts[2].Fact.Key
	late := fact(ledger.Task, key, &taskv1.ReportedLate{State: taskv1.State_STATE_SUCCEEDED, Outcome: end.Outcome})
	late.Fact.Cause = ledger.CausedByReport(id, shownReport)
	s.append(facts[0], facts[1], fact(ledger.Task, key, &taskv1.Expired{}))
	s.untilState("web", instancev1.State_STATE_FAILED)
	s.append(late)
	s.untilState("web", instancev1.State_STATE_CONVERGED)
}

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
