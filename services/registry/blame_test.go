package registry

import (
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/block"
	"github.com/garrison-fleet/garrison/pkg/topology"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// set makes a value the one that web is configured with from its next change on.
func (s *site) set(level string) {
	s.append(fact(ledger.Agent, "web", &agentv1.Changed{Agent: &agentv1.Agent{
		Name: "web", Kind: agentv1.Kind_KIND_DAEMON, Metadata: map[string]string{"level": level},
	}}))
}

// A good image must not be blocked because of the bad configuration that came with it.
func TestAnImageIsNotRefusedForTheConfigurationThatCameWithIt(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 5)
	all := &intentv1.Selector{All: true}
	s.set("bad")
	s.accepted(topology.VerbUpgrade, upWeb("1.1.0", s.first(3)))
	s.eventually("it is blocked", func(string) bool { return true }, func() bool {
		return s.r.records.View.BlockCount() == 1
	})
	if b := s.blocks()[0]; !block.Both(b.Build) || b.Failed != 3 {
		t.Errorf("blocked %v", b)
	}
	if o := s.outcome(s.publish(topology.VerbUpgrade, upWeb("1.1.0", all))); o.Refusal.GetCode() != code.Blocked {
		t.Errorf("the same by hand: %v; want %s", o.Refusal, code.Blocked)
	}
	plan := must[*registryv1.PlanRolloutResponse](s, "PlanRollout",
		&registryv1.PlanRolloutRequest{Intent: waves(&rolloutv1.Strategy{})})
	if plan.Refusal.GetCode() != code.NothingLeft {
		t.Errorf("the same by a rollout: %v", plan.Refusal)
	}
	// The configuration may come to the image that runs.
	both := configure("web", nil, all)
	both.AtOnce, both.DryRun = true, true
	if o := s.outcome(s.publish(topology.VerbConfigure, both)); o.Refusal != nil || o.Changed == 0 {
		t.Errorf("the configuration without the image: %v", o)
	}
	s.set("good")
	if r := s.accepted(topology.VerbUpgrade, upWeb("1.1.0", all)); r.Changed != 5 {
		t.Errorf("the image with another configuration changes %d servers, want 5", r.Changed)
	}
}
