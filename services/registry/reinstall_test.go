package registry

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

func reinstall(server string) *intentv1.Intent {
	return &intentv1.Intent{Ask: &intentv1.Intent_Reinstall{Reinstall: &intentv1.Reinstall{Server: server}}}
}

// emptyBeat beats as an executor that was emptied for a reinstall.
func (s *site) emptyBeat(server, reset string) {
	s.t.Helper()
	data, err := proto.Marshal(&reportv1.Beat{ServerId: server, BootId: "boot", ResetId: reset})
	if err != nil {
		s.t.Fatal(err)
	}
	address := topology.ServerAddress{Cell: "main", Server: server}
	if err := s.ops.Publish(topology.BeatSubject(address), data); err != nil {
		s.t.Fatal(err)
	}
}

// untilReinstalled beats until the reinstall of a server has ended.
func (s *site) untilReinstalled(server, reset string) {
	s.t.Helper()
	bustest.Eventually(s.t, "it is reinstalled", func() bool {
		s.emptyBeat(server, reset)
		return s.get(server).Reinstall == nil
	})
}

func TestAServerIsReinstalledOnceItsExecutorIsEmptyAndItsInstancesAreGone(t *testing.T) {
	t.Parallel()
	s, id := installed(t, "web", "db")
	r := s.accepted(topology.VerbReinstall, reinstall("one"))
	if have := s.get(id); have.Reinstall.GetIntentId() != r.Id || have.Reinstall.GetActor() != "alice" {
		t.Fatalf("it is %v", have.Reinstall)
	}
	if again := s.accepted(topology.VerbReinstall, reinstall("one")); again.Changed != 0 || again.Already != 1 {
		t.Errorf("asked again: %+v; want nothing", countsOf(again))
	}
	if have := s.code("WithdrawIntent", &registryv1.WithdrawIntentRequest{IntentId: r.Id}); have != "NOT_WITHDRAWABLE" {
		t.Errorf("withdrawn: %s", have)
	}
	refused := s.outcome(s.publish(topology.VerbInstall, install("web", on("one"))))
	if refused.GetRefusal().GetCode() != "SERVER_REINSTALLING" {
		t.Errorf("an install meanwhile: %v", refused)
	}

	// An executor that says too early that it is empty ends nothing.
	s.do(taskv1.Verb_VERB_REMOVE, s.instance("web"))
	bustest.Eventually(t, "one is gone", func() bool { s.emptyBeat(id, r.Id); return s.instance("web") == nil })
	if s.get(id).Reinstall == nil {
		t.Fatal("it is reinstalled although an instance is left")
	}
	s.do(taskv1.Verb_VERB_REMOVE, s.instance("db"))
	bustest.Eventually(t, "both are gone", func() bool { return s.instance("db") == nil })
	s.untilReinstalled(id, r.Id)

	have := names(s.facts(ledger.Server, id))
	n := slices.Index(have, "reinstalling")
	count := map[string]int{}
	for _, name := range have {
		count[name]++
	}
	if n < 0 || count["reinstalling"] != 1 || count["reinstalled"] != 1 {
		t.Errorf("the facts are %v", have)
	}
	s.accepted(topology.VerbInstall, install("web", on("one")))
}
