package registry

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// Two registries share the reports, so two of one server may be handled in any order,
// and the later one may say nothing new: the earlier must not have the last word.
func TestTheLastReportDecidesHoweverSlowAReplicaIs(t *testing.T) {
	t.Parallel()
	s, id := installed(t, "web")
	slow, _ := s.registry()
	image := s.instance("web").Wanted
	address := topology.ServerAddress{Cell: "main", Server: id}
	report := func(number uint64, health instancev1.Health) *reportv1.Report {
		found := &reportv1.Found{Agent: "web", Image: image, Health: health}
		return &reportv1.Report{
			ServerId: id,
			BootId:   "boot",
			Sequence: number,
			Body:     &reportv1.Report_Agents{Agents: &reportv1.AgentsReport{Agents: []*reportv1.Found{found}}},
		}
	}
	early := report(5, instancev1.Health_HEALTH_BAD)
	s.report(topology.ReportAgents, report(6, instancev1.Health_HEALTH_GOOD)) // equal to what is recorded
	data, err := proto.Marshal(early)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	err = slow.reports.HandleAgents(ctx,
		bus.Message{Subject: topology.ReportSubject(address, topology.ReportAgents), Data: data, Delivered: 2})

	if err != nil {
		t.Fatal(err)
	}
	facts := s.facts(ledger.Instance, ledger.Key(id, "web"))
	last, _ := facts[len(facts)-1].Body.(*instancev1.Observed)
	if last.GetHealth() == instancev1.Health_HEALTH_BAD {
		t.Errorf("the earlier report has the last word: %v", last)
	}
}

// A report that was recorded and then overruled by an earlier, delayed one counts again: it must not
// be taken for a repeat of itself.
func TestAReportThatWasOverruledCountsAgain(t *testing.T) {
	t.Parallel()
	s, id := installed(t, "web")
	slow, _ := s.registry()
	image := s.instance("web").Wanted
	report := func(number uint64, reason string) *reportv1.Report {
		found := &reportv1.Found{Agent: "web", Image: image, Health: instancev1.Health_HEALTH_BAD, Reason: reason}
		list := &reportv1.AgentsReport{Agents: []*reportv1.Found{found}}
		return &reportv1.Report{
			ServerId: id, BootId: "boot", Sequence: number, Body: &reportv1.Report_Agents{Agents: list},
		}
	}
	s.report(topology.ReportAgents, report(6, "late"))
	polltest.Eventually(t, "the late one is recorded", func() bool { return s.instance("web").Reason == "late" })
	slow.reports.Forget() // the other replica handled it
	data, err := proto.Marshal(report(5, "early"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	subject := topology.ReportSubject(topology.ServerAddress{Cell: "main", Server: id}, topology.ReportAgents)

	err = slow.reports.HandleAgents(ctx, bus.Message{Subject: subject, Data: data, Delivered: 2})

	if err != nil {
		t.Fatal(err)
	}
	facts := s.facts(ledger.Instance, ledger.Key(id, "web"))
	last, _ := facts[len(facts)-1].Body.(*instancev1.Observed)
	if last.GetReason() != "late" {
		t.Errorf("the last word is %q, want the late one's", last.GetReason())
	}
}

func TestAChangeThatWaitedIsRecheckedAfterARestart(t *testing.T) {
	t.Parallel()
	s, id := flapping(t)
	s.stop()
	s.skew.Store(int64(time.Hour))
	s.registry()
	s.untilFound(id, "agent-9")
}

// The replica that put it off may end for good.
func TestEveryReplicaRechecks(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.server("one")
	other, _ := s.registry()
	if err := s.handle(s.r, 1, agentsOf(id, 1, stray("web", 1))); err != nil {
		t.Fatal(err)
	}
	polltest.Eventually(t, "the other one remembers the server", func() bool { return other.waitsForRecheck(id) })
}

func TestADeadServerIsNotRechecked(t *testing.T) {
	t.Parallel()
	s, id := flapping(t)
	if !s.r.waitsForRecheck(id) {
		t.Fatal("it is not remembered while it is alive")
	}
	s.accepted(topology.VerbDecommission, decommission("one", false))
	polltest.Eventually(t, "it is dead", func() bool { return s.get(id).Life == serverv1.Life_LIFE_DEAD })
	polltest.Eventually(t, "it is forgotten", func() bool { return !s.r.waitsForRecheck(id) })
}

// flapping returns a site whose one server said ten times in a row that something else runs
// there, and had every report acknowledged.
func flapping(t *testing.T) (*site, string) {
	t.Helper()
	s := start(t)
	id := s.server("one")
	for n := range uint64(10) {
		s.report(topology.ReportAgents, agentsOf(id, n+1, stray(fmt.Sprint("agent-", n), 1)))
	}
	subject := topology.ReportSubject(topology.ServerAddress{Cell: "main", Server: id}, topology.ReportAgents)
	last, err := s.ops.DirectGet(context.Background(), topology.Reports, subject)
	if err != nil {
		t.Fatal(err)
	}
	polltest.Eventually(t, "every report is acknowledged",
		func() bool { return s.bus.AckFloor(t, topology.RegistryAgents) >= last.Sequence })
	return s, id
}

func (s *site) untilFound(id, agent string) {
	s.t.Helper()
	polltest.Eventually(s.t, "the last report is recorded", func() bool {
		found := s.get(id).Found
		return len(found) == 1 && found[0].Agent == agent
	})
}

// waitsForRecheck reports whether a server's last report will be rechecked.
func (r *Registry) waitsForRecheck(id string) bool {
	return r.rechecks.Includes(id, topology.ReportAgents)
}

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
	polltest.Eventually(t, "it is listed", func() bool { return s.foundServers() == 1 && len(s.get(id).Found) == 1 })
	if f := s.get(id).Found[0]; f.Agent != "web" || f.Trace != serverv1.Trace_TRACE_PROCESS || f.Since == nil {
		t.Errorf("found %v", f)
	}
	if i := s.instance("web"); i.State != instancev1.State_STATE_CONVERGED {
		t.Errorf("the instance beside it is %v", i)
	}
	s.report(topology.ReportAgents, agentsOf(id, 9, mine))
	polltest.Eventually(t, "nothing is listed", func() bool { return s.foundServers() == 0 })
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
	polltest.Eventually(t, "it is recorded nevertheless", func() bool { return len(s.lists(id)) == 1 })
}
