package registry

import (
	"testing"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

var givenUp = &taskv1.Cancelled{Code: code.GivenUp, Reason: "it waited, and another change was asked for"}

// deferredUpgrade asks for web 2.0.0 on a server that defers the change, and returns the task.
func (s *site) deferredUpgrade() string {
	s.t.Helper()
	s.image("web", "2.0.0", "release")
	s.accepted(topology.VerbUpgrade, upgrade("web", "2.0.0", on("one")))
	s.taskOf(s.instance("web"), &taskv1.Assigned{}, &taskv1.Started{}, &taskv1.Deferred{})
	return s.instance("web").TaskId
}

// Neither the deferred change nor the one that superseded it touched anything: the state before both is wanted.
func TestTheStateBeforeADeferredChangeIsWantedWhenTheNextOneIsWithdrawn(t *testing.T) {
	t.Parallel()
	s, _ := installed(t, "web")
	s.image("web", "3.0.0", "release")
	first := s.instance("web")
	deferred := s.deferredUpgrade()
	r := s.accepted(topology.VerbUpgrade, upgrade("web", "3.0.0", on("one")))
	s.append(fact(ledger.Task, deferred, givenUp))
	s.withdraw(r.Id)
	s.taskOf(s.instance("web"), cancelled)
	i := s.untilState("web", instancev1.State_STATE_CONVERGED)
	if i.Wanted.Version != "1.0.0" || i.IntentId != first.IntentId || i.TaskId != first.TaskId {
		t.Errorf("the instance is %v, want it as %v", i, first)
	}
}

// The server gave the deferred change up although it was wanted again meanwhile.
func TestADeferredChangeThatIsGivenUpWhenItIsWantedAgainLeavesTheInstanceAsItWas(t *testing.T) {
	t.Parallel()
	s, _ := installed(t, "web")
	s.image("web", "3.0.0", "release")
	first := s.instance("web")
	deferred := s.deferredUpgrade()
	r := s.accepted(topology.VerbUpgrade, upgrade("web", "3.0.0", on("one")))
	s.withdraw(r.Id)
	s.taskOf(s.instance("web"), cancelled)
	bustest.Eventually(t, "2.0.0 is wanted again",
		func() bool { return s.instance("web").GetWanted().GetVersion() == "2.0.0" })
	s.append(fact(ledger.Task, deferred, givenUp))
	i := s.untilState("web", instancev1.State_STATE_CONVERGED)
	if i.Wanted.Version != "1.0.0" || i.IntentId != first.IntentId || i.TaskId != first.TaskId {
		t.Errorf("the instance is %v, want it as %v", i, first)
	}
}

func TestADeferredInstallationLeavesNothingWhenTheNextChangeIsWithdrawn(t *testing.T) {
	t.Parallel()
	s, _ := installed(t)
	s.agent("web")
	s.image("web", "1.0.0", "release")
	s.accepted(topology.VerbInstall, install("web", on("one")))
	s.taskOf(s.instance("web"), &taskv1.Assigned{}, &taskv1.Started{}, &taskv1.Deferred{})
	deferred := s.instance("web").TaskId
	r := s.accepted(topology.VerbRemove, remove("web", on("one")))
	s.append(fact(ledger.Task, deferred, givenUp))
	s.withdraw(r.Id)
	s.taskOf(s.instance("web"), cancelled)
	bustest.Eventually(t, "the instance is gone", func() bool { return s.instance("web") == nil })
}
