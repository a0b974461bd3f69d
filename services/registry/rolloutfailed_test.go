package registry

import (
	"slices"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/topology"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// Where the upgrade of web failed before, and fails again, no rollout is to blame.
func TestServersWhoseLastChangeFailedComeLastAndCountForNothing(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 6)
	ids := s.serverIDs()
	bad := ids[:2]
	for _, server := range bad {
		s.accepted(topology.VerbUpgrade, upTo("1.1.0", server))
	}
	fails := func(server string) bool { return slices.Contains(bad, server) }
	s.eventually("the upgrade failed on two servers", fails, func() bool {
		n := 0
		for i := range s.r.records.View.InstancesOfAgent("web") {
			if i.State == instancev1.State_STATE_FAILED {
				n++
			}
		}
		return n == 2
	})
	s.image("web", "1.2.0", "release")

	plan := must[*registryv1.PlanRolloutResponse](s, "PlanRollout",
		&registryv1.PlanRolloutRequest{Intent: waves(&rolloutv1.Strategy{})})
	if plan.Refusal != nil || plan.Owed != 2 || !slices.Equal(plan.Waves, []uint32{1, 1, 2}) {
		t.Fatalf("planned %v", plan)
	}
	of := waves(&rolloutv1.Strategy{})
	of.GetRollout().On = &intentv1.Selector{Servers: bad}
	alone := must[*registryv1.PlanRolloutResponse](s, "PlanRollout", &registryv1.PlanRolloutRequest{Intent: of})
	if alone.Refusal != nil || alone.Owed != 0 || len(alone.Targets) != 2 {
		t.Errorf("a rollout for the failed servers alone: %v; want both in waves", alone)
	}

	id := s.accepted(topology.VerbRollout, plan.Intent).Id
	s.eventuallyBad("1.2.0", "every server was tried, and the rollout succeeds", fails, func() bool {
		r, _ := s.r.records.View.Rollout(id)
		broken := r.GetOwed().GetCounts()[uint32(rolloutv1.TargetState_TARGET_STATE_BROKEN)]
		return broken > 0 && r.GetState() == rolloutv1.State_STATE_SUCCEEDED
	})
	if have := s.versions(); have["1.2.0"] < 4 {
		t.Errorf("versions %v; want success on the other four", have)
	}
}
