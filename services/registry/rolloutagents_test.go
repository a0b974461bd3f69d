package registry

import (
	"fmt"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/topology"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// A compute node of a Triton site has some fifteen agents.
func TestARolloutChangesEveryAgentOfAServer(t *testing.T) {
	t.Parallel()
	const agents = 32
	s := rolledOut(t, 1)
	in := &intentv1.Rollout{On: &intentv1.Selector{All: true}, Strategy: &rolloutv1.Strategy{}}
	add := func(n int) {
		name := fmt.Sprintf("agent-%02d", n)
		s.agent(name)
		s.image(name, "1.0.0", "release")
		one := &intentv1.Step_Install{Install: install(name, nil).GetInstall()}
		in.Steps = append(in.Steps, &intentv1.Step{Change: one})
	}
	for n := range agents {
		add(n)
	}
	ask := &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: in}}
	plan := must[*registryv1.PlanRolloutResponse](s, "PlanRollout", &registryv1.PlanRolloutRequest{Intent: ask})
	if plan.Refusal != nil || len(plan.Targets) != 1 || len(plan.Targets[0].GetTarget().GetChanges()) != agents {
		t.Fatalf("planned %v", plan)
	}
	id := s.accepted(topology.VerbRollout, plan.Intent).Id
	s.eventually("all agents are wanted", nil, func() bool {
		n := 0
		for range s.r.records.View.InstancesOf(plan.Targets[0].GetTarget().GetServerId()) {
			n++
		}
		return n == agents+1
	})
	if r := s.rollout(id); r.State != rolloutv1.State_STATE_RUNNING {
		t.Errorf("the rollout is %v", r)
	}
	add(agents)
	more := must[*registryv1.PlanRolloutResponse](s, "PlanRollout", &registryv1.PlanRolloutRequest{Intent: ask})
	if more.GetRefusal().GetCode() != code.Malformed {
		t.Errorf("one more: %v", more)
	}
}
