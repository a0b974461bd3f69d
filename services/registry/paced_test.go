package registry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/budget"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intake"
)

// sysinfoOf reports a machine with so much memory, in answer to a task.
func (s *site) sysinfoOf(id string, sequence, memory uint64, task string) {
	s.t.Helper()
	info := &serverv1.Sysinfo{Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"}, MemoryBytes: memory}
	s.report(topology.ReportSysinfo, &reportv1.Report{
		ServerId: id, BootId: "boot", Sequence: sequence,
		Body: &reportv1.Report_Sysinfo{Sysinfo: &reportv1.SysinfoReport{Sysinfo: info, TaskId: task}},
	})
}

// untilHandled waits until every report of a kind is acknowledged.
func (s *site) untilHandled(id, kind string, by topology.Consumer) {
	s.t.Helper()
	at := topology.ServerAddress{Cell: "main", Server: id}
	last, err := s.ops.DirectGet(context.Background(), topology.Reports, topology.ReportSubject(at, kind))
	if err != nil {
		s.t.Fatal(err)
	}
	polltest.Eventually(s.t, "every report is acknowledged",
		func() bool { return s.bus.AckFloor(s.t, by) >= last.Sequence })
}

func (s *site) count(noun ledger.Noun, key, fact string) (n int) {
	s.t.Helper()
	for _, f := range s.facts(noun, key) {
		if f.Name() == fact {
			n++
		}
	}
	return n
}

func TestASysinfoThatKeepsChangingIsRecordedAtALimitedRate(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.server("one")
	for n := range uint64(5) { // in answer to what was never asked; the stream keeps few reports that wait
		s.sysinfoOf(id, n+1, n+1, ident.New())
		s.untilHandled(id, topology.ReportSysinfo, topology.RegistrySysinfo)
	}
	if n := s.count(ledger.Server, id, "sysinfo-seen"); n != 1 {
		t.Errorf("recorded %d times; want 1", n)
	}
	s.skew.Store(int64(intake.SysinfoEvery))
	polltest.Eventually(t, "the last one is recorded", func() bool { return s.get(id).Sysinfo.MemoryBytes == 5 })
}

// health reports an agent that is not healthy for a reason.
func (s *site) health(id string, sequence uint64, reason string) {
	s.t.Helper()
	i := s.instance("web")
	s.report(topology.ReportAgents, agentsOf(id, sequence, &reportv1.Found{
		Agent: "web", InstanceId: i.Id, Image: i.Wanted, Health: instancev1.Health_HEALTH_BAD, Reason: reason,
	}))
}

func TestAReasonThatKeepsChangingIsRecordedAtALimitedRate(t *testing.T) {
	t.Parallel()
	s, id := installed(t, "web")
	word := func(n uint64) string { return strings.Repeat("x", int(n)+1) }
	for n := range uint64(20) {
		s.health(id, 100+n, word(n))
		s.untilHandled(id, topology.ReportAgents, topology.RegistryAgents)
	}
	if n := s.count(ledger.Instance, ledger.Key(id, "web"), "observed"); n > budget.Burst+1 {
		t.Errorf("recorded %d times; want %d at most", n, budget.Burst+1)
	}
	s.skew.Store(int64(budget.Every))
	polltest.Eventually(t, "the last one is recorded",
		func() bool { return s.instance("web").ObservedReason == word(19) })
}

func TestAReasonWithOtherDigitsIsNoNews(t *testing.T) {
	t.Parallel()
	s, id := installed(t, "web")
	s.health(id, 100, "restarted 1 time, exit 1")
	polltest.Eventually(t, "it is recorded", func() bool { return s.instance("web").ObservedReason != "" })
	for n := range uint64(5) {
		s.health(id, 101+n, fmt.Sprintf("restarted %d time, exit %d", n+2, n))
	}
	s.untilHandled(id, topology.ReportAgents, topology.RegistryAgents)
	if reason := s.instance("web").ObservedReason; reason != "restarted 1 time, exit 1" {
		t.Errorf("recorded %q", reason)
	}
}

// frugal returns a site with a budget of a few facts, one server that used it up, and another registry.
func frugal(t *testing.T) (*site, string, *Registry) {
	t.Helper()
	s := start(t)
	s.stop()
	s.budget = 20_000
	// The budget is one of a day (UTC), which must not end in the middle of a test.
	s.skew.Add(int64(24*time.Hour - time.Since(time.Now().UTC().Truncate(24*time.Hour))))
	s.r, s.stop = s.registry()
	other, _ := s.registry()
	id := s.server("one")
	for n := uint64(1); n <= 60 && s.get(id).Standing != serverv1.Standing_STANDING_QUARANTINED; n++ {
		s.skew.Add(int64(intake.SysinfoEvery))
		s.sysinfoOf(id, n, n, "")
		s.untilHandled(id, topology.ReportSysinfo, topology.RegistrySysinfo)
	}
	polltest.Eventually(t, "it is quarantined", func() bool {
		return s.get(id).Standing == serverv1.Standing_STANDING_QUARANTINED
	})
	return s, id, other
}

// intakes returns what each registry counted of a server, up to the end of the ledger.
func (s *site) intakes(id string, registries ...*Registry) (all []*serverv1.Intake) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.caughtUp(ctx); err != nil {
		s.t.Fatal(err)
	}
	for _, r := range registries {
		r.follower.Read(func() { is, _ := r.records.View.Server(id); all = append(all, proto.CloneOf(is.Intake)) })
	}
	return all
}

func TestAServerThatUsedUpItsBudgetIsQuarantinedAndCostsNothingMore(t *testing.T) {
	t.Parallel()
	s, id, other := frugal(t)
	why := s.get(id).Exclusion
	if why.GetCode() != code.LedgerBudget || why.GetActor() != ledger.Registry {
		t.Errorf("excluded by %v", why)
	}
	before := len(s.facts(ledger.Server, id))
	s.skew.Add(int64(time.Minute))
	for n := range uint64(10) {
		s.beat(id, fmt.Sprint("boot-", n))
		s.sysinfoOf(id, 100+n, 1000+n, "")
		s.report(topology.ReportAgents, agentsOf(id, 200+n, stray(fmt.Sprint("agent-", n), 1)))
	}
	s.untilHandled(id, topology.ReportSysinfo, topology.RegistrySysinfo)
	s.untilHandled(id, topology.ReportAgents, topology.RegistryAgents)
	s.sweeps(1)
	facts := names(s.facts(ledger.Server, id))[before:]
	if facts = slices.DeleteFunc(facts, func(f string) bool { return f == "offline" }); len(facts) > 0 {
		t.Errorf("after its quarantine: %v", facts)
	}
	again, _ := s.registry() // the budget survives a restart
	for _, c := range s.intakes(id, other, again) {
		if mine := s.intakes(id, s.r)[0]; !proto.Equal(c, mine) || c.GetBytes() < s.budget {
			t.Errorf("one replica counted %v, another one %v", mine, c)
		}
	}
}

func TestWhatAReleasedServerSaidMeanwhileIsRecorded(t *testing.T) {
	t.Parallel()
	s, id, _ := frugal(t)
	s.sysinfoOf(id, 100, 4711, "")
	s.untilHandled(id, topology.ReportSysinfo, topology.RegistrySysinfo)
	must[*registryv1.ReleaseServerResponse](s, "ReleaseServer", &registryv1.ReleaseServerRequest{Server: "one"})
	s.skew.Add(int64(intake.SysinfoEvery))
	polltest.Eventually(t, "it is recorded", func() bool { return s.get(id).Sysinfo.MemoryBytes == 4711 })
	if s.get(id).Standing != serverv1.Standing_STANDING_ENROLLED {
		t.Error("it is quarantined again")
	}
}
