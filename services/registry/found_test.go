package registry

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

func stray(agent string, pid uint32) *reportv1.Found {
	return &reportv1.Found{Agent: agent, Trace: serverv1.Trace_TRACE_PROCESS, Path: "images/7", Pid: pid}
}

func agentsOf(id string, sequence uint64, found ...*reportv1.Found) *reportv1.Report {
	return &reportv1.Report{
		ServerId: id, BootId: "boot", Sequence: sequence,
		Body: &reportv1.Report_Agents{Agents: &reportv1.AgentsReport{Agents: found}},
	}
}

// lists returns the recorded lists of unmanaged agents of a server, in order.
func (s *site) lists(id string) (out []*serverv1.AgentsFound) {
	for _, f := range s.facts(ledger.Server, id) {
		if b, ok := f.Body.(*serverv1.AgentsFound); ok {
			out = append(out, b)
		}
	}
	return out
}

func (s *site) foundServers() int {
	return len(
		must[*registryv1.ListServersResponse](s, "ListServers", &registryv1.ListServersRequest{Found: true}).Servers)
}

func TestAnUnmanagedAgentIsOneFactWhenItAppearsAndOneWhenItIsGone(t *testing.T) {
	t.Parallel()
	s, id := installed(t, "web")
	s.server("other")
	mine := &reportv1.Found{
		Agent:      "web",
		InstanceId: s.instance("web").Id,
		Image:      s.instance("web").Wanted,
		Health:     instancev1.Health_HEALTH_GOOD,
	}
	s.report(topology.ReportAgents, agentsOf(id, 1, mine))
	for n := range uint32(5) {
		s.report(topology.ReportAgents, agentsOf(id, uint64(n)+2, mine, stray("web", 100+n)))
	}
	bustest.Eventually(t, "it is listed", func() bool { return s.foundServers() == 1 && len(s.get(id).Found) == 1 })
	if f := s.get(id).Found[0]; f.Agent != "web" || f.Trace != serverv1.Trace_TRACE_PROCESS || f.Since == nil {
		t.Errorf("found %v", f)
	}
	if i := s.instance("web"); i.State != instancev1.State_STATE_CONVERGED {
		t.Errorf("the instance beside it is %v", i)
	}
	s.report(topology.ReportAgents, agentsOf(id, 9, mine))
	bustest.Eventually(t, "nothing is listed", func() bool { return s.foundServers() == 0 })
	if l := s.lists(id); len(l) != 2 || len(l[0].Agents) != 1 || len(l[1].Agents) != 0 {
		t.Errorf("recorded %v; want one list with it and one without", l)
	}
}

// handle passes a report to one registry only.
func (s *site) handle(r *Registry, stored uint64, report *reportv1.Report) error {
	s.t.Helper()
	data, err := proto.Marshal(report)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	subject := topology.ReportSubject(topology.ServerAddress{Cell: "main", Server: report.ServerId},
		topology.ReportAgents)
	return r.reports.HandleAgents(ctx, bus.Message{Subject: subject, Data: data, Sequence: stored, Delivered: 2})
}

// A report from before a removal may be handled after the instance is gone; the server's later report
// stays effective.
func TestAnInstanceThatIsGoneSinceTheReportIsNotUnmanaged(t *testing.T) {
	t.Parallel()
	s, id := installed(t, "web")
	gone := &reportv1.Found{Agent: "web", InstanceId: ident.New(), Health: instancev1.Health_HEALTH_GOOD}
	slow, _ := s.registry()
	s.report(topology.ReportAgents, agentsOf(id, 6))
	if err := s.handle(slow, 0, agentsOf(id, 5, gone)); err != nil {
		t.Fatal(err)
	}
	if l := s.lists(id); len(l) != 0 {
		t.Errorf("recorded %v", l)
	}
}

// A replica whose view lags must not list an instance that was installed since as unmanaged.
func TestAnInstanceThatThisReplicaDoesNotKnowYetIsNotUnmanaged(t *testing.T) {
	t.Parallel()
	s, id := installed(t, "web")
	slow, _ := s.registry()
	have := []*reportv1.Found{
		{
			Agent:      "web",
			InstanceId: s.instance("web").Id,
			Image:      s.instance("web").Wanted,
			Health:     instancev1.Health_HEALTH_GOOD,
		},
	}
	for n := range uint64(20) {
		agent := fmt.Sprintf("agent-%d", n)
		wanted := fact(ledger.Instance, ledger.Key(id, agent),
			&instancev1.Wanted{InstanceId: ident.From(agent), Generation: 1})
		report := agentsOf(
			id,
			5+n,
			append(have,
				&reportv1.Found{Agent: agent, InstanceId: ident.From(agent), Health: instancev1.Health_HEALTH_GOOD})...)
		report.GetAgents().DocumentGeneration = s.appendAsync(wanted)
		if err := s.handle(slow, n+1, report); err != nil {
			t.Fatal(err)
		}
	}
	if l := s.lists(id); len(l) != 0 {
		t.Errorf("recorded %v", l)
	}
}

// A server sends a list once, so an instance in it counts although this replica does not know it yet.
func TestAnObservationOfAnInstanceThatThisReplicaDoesNotKnowYetIsRecorded(t *testing.T) {
	t.Parallel()
	s, id := installed(t, "web")
	slow, _ := s.registry()
	image := s.instance("web").Wanted
	for n := range uint64(20) {
		agent := fmt.Sprintf("agent-%d", n)
		s.agent(agent)
		wanted := fact(ledger.Instance, ledger.Key(id, agent), &instancev1.Wanted{
			InstanceId: ident.From(agent), Generation: 1, Image: image,
		})
		report := agentsOf(id, 5+n, &reportv1.Found{
			Agent: agent, InstanceId: ident.From(agent), Image: image, Generation: 1,
			Health: instancev1.Health_HEALTH_GOOD,
		})
		report.GetAgents().DocumentGeneration = s.appendAsync(wanted)
		if err := s.handle(slow, n+1, report); err != nil {
			t.Fatal(err)
		}
		if i := s.untilState(agent, instancev1.State_STATE_CONVERGED); i.Observed.GetId() != image.Id {
			t.Fatalf("%s is %v", agent, i)
		}
	}
}

func TestAServerThatReportsNonsenseDelaysNoOther(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.server("one")
	report := agentsOf(id, 1, stray("cron", 1))
	report.GetAgents().DocumentGeneration = 1 << 60
	s.report(topology.ReportAgents, report)
	bustest.Eventually(t, "it is recorded nevertheless", func() bool { return len(s.lists(id)) == 1 })
}
