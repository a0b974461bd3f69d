package registry

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/topology"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// The plan shows from what each server changes, so it holds for nothing else.
func TestAPlanIsStaleOnceAServerWouldChangeFromAnotherVersion(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 2)
	s.image("web", "0.9.0", "release")
	plan := must[*registryv1.PlanRolloutResponse](s, "PlanRollout",
		&registryv1.PlanRolloutRequest{Intent: inOneWave(&rolloutv1.Strategy{})})
	s.accepted(topology.VerbUpgrade, upTo("0.9.0", s.serverIDs()[0]))
	s.eventually("web is downgraded", nil, func() bool { return s.converged("web") == 2 })
	if have := s.outcome(s.publish(topology.VerbRollout, plan.Intent)); have.Refusal.GetCode() != code.PlanStale {
		t.Errorf("a plan from 1.0.0 where 0.9.0 runs: %v; want %s", have.Refusal, code.PlanStale)
	}
}

func TestARolloutThatChangesNoServerIsRefusedForWhatLeavesThemOut(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 3)
	ids := s.serverIDs()
	s.accepted(topology.VerbUpgrade, upTo("1.1.0", ids[0]))
	s.eventually("web is upgraded", nil, func() bool { return s.converged("web") == 3 })
	must[*registryv1.SetHoldResponse](s, "SetHold", &registryv1.SetHoldRequest{
		Agent: "web", On: &intentv1.Selector{Servers: ids[1:]}, Reason: "because",
	})
	plan := must[*registryv1.PlanRolloutResponse](s, "PlanRollout",
		&registryv1.PlanRolloutRequest{Intent: inOneWave(&rolloutv1.Strategy{})})
	why := plan.GetRefusal()
	if why.GetCode() != code.Held || !strings.Contains(why.Message, "2 HELD, 1 as asked already") {
		t.Errorf("planned %v; want %s with the counts", why, code.Held)
	}
}

func TestAnEmergencyThatIsToSoakOrToWaitForApprovalsIsRefused(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 3)
	soak := durationpb.New(time.Minute)
	for name, c := range map[string]struct {
		strategy *rolloutv1.Strategy
		want     string
	}{
		"neither":             {&rolloutv1.Strategy{}, ""},
		"soak":                {&rolloutv1.Strategy{Soak: soak}, "an emergency has no soak"},
		"approval":            {&rolloutv1.Strategy{Approve: true}, "waits for no approval"},
		"approval by another": {&rolloutv1.Strategy{Approve: true, ApproveByOther: true}, "waits for no approval"},
		"soak of a stage":     {&rolloutv1.Strategy{Stages: []*rolloutv1.Stage{{Soak: soak}}}, "no soak"},
	} {
		c.strategy.Emergency = true
		why := must[*registryv1.PlanRolloutResponse](s, "PlanRollout",
			&registryv1.PlanRolloutRequest{Intent: waves(c.strategy)}).GetRefusal()
		refused := why.GetCode() == code.BadStrategy && strings.Contains(why.GetMessage(), c.want)
		if refused != (c.want != "") || c.want == "" && why != nil {
			t.Errorf("%s: %v; want a refusal with %q", name, why, c.want)
		}
	}
	id := s.accepted(topology.VerbRollout, inOneWave(&rolloutv1.Strategy{Soak: soak, Approve: true})).Id
	s.wantsOnAll(3, "1.1.0")
	s.eventually("its servers are changed", nil, func() bool { return s.converged("web") == 3 })
	undo := &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: &intentv1.Rollout{
		UndoOf: id, Strategy: &rolloutv1.Strategy{Emergency: true},
	}}}
	s.accepted(topology.VerbRollout, undo)
}
