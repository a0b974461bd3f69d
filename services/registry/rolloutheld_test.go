package registry

import (
	"testing"
	"time"

	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/pkg/topology"
)

// While presence is held, no fact calls a server offline that the last wave may have killed.
func TestNoWaveBeginsWhilePresenceIsHeld(t *testing.T) {
	t.Parallel()
	s := startBeating(t, 400*time.Millisecond)
	h := startHerd(s, 30)
	s.agent("web")
	s.channel("release", true)
	s.image("web", "1.0.0", "release")
	s.accepted(topology.VerbInstall, install("web", &intentv1.Selector{All: true}))
	s.eventually("web runs everywhere", nil, func() bool {
		running := 0
		for i := range s.r.records.View.InstancesOfAgent("web") {
			if i.State == instancev1.State_STATE_CONVERGED {
				running++
			}
		}
		return running == 30
	})
	s.image("web", "1.1.0", "release")
	in := staged(taking(12))
	in.GetRollout().Strategy.Approve = true
	id := s.accepted(topology.VerbRollout, in).Id
	s.eventually("the first wave passed", nil, func() bool {
		r, _ := s.r.records.View.Rollout(id)
		return r.GetWaves()[0].PassedAt != nil
	})
	h.silent.Store(18)
	h.until("eighteen are held", func(r *registryv1.ListServersResponse) bool {
		return r.PresenceHeld.GetSilent() == 18
	})
	s.control(id, registryv1.RolloutControl_ROLLOUT_CONTROL_APPROVE)
	s.waits(id, "60 % of the servers, which are silent (18 of 30): presence is held")
	if r := s.rollout(id); r.Waves[1].OpenedAt != nil {
		t.Fatalf("wave 2 began while presence was held: %v", r.Waves[1])
	}
	h.silent.Store(0)
	s.eventually("it succeeds", nil, s.is(id, rolloutv1.State_STATE_SUCCEEDED))
	q := &registryv1.ReplayRolloutRequest{RolloutId: id}
	if resp := must[*registryv1.ReplayRolloutResponse](s, "ReplayRollout", q); resp.Same != resp.Recorded {
		t.Errorf("replayed %v", resp)
	}
}

// taking is a stage of n servers.
func taking(n uint32) *rolloutv1.Stage {
	return &rolloutv1.Stage{Size: &rolloutv1.Stage_Servers{Servers: n}}
}

// staged is a rollout with these stages.
func staged(stages ...*rolloutv1.Stage) *intentv1.Intent {
	in := waves(&rolloutv1.Strategy{})
	in.GetRollout().Strategy.Stages = stages
	return in
}
