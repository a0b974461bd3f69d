package registry

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
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
	bustest.Eventually(t, "the late one is recorded", func() bool { return s.instance("web").Reason == "late" })
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
