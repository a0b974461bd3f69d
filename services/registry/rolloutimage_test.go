package registry

import (
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

func TestARolloutHaltsWhenItsImageIsDisabledOrDeleted(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 6)
	id := s.accepted(topology.VerbRollout, waves(&rolloutv1.Strategy{Approve: true})).Id
	s.eventually("the first wave passed", nil, func() bool {
		r, _ := s.r.records.View.Rollout(id)
		return r.GetWaves()[0].PassedAt != nil
	})
	image := ""
	s.r.follower.Read(func() { image = s.r.records.View.ImagesNamed("web", "1.1.0", "")[0].Manifest.Id })
	halted := func(want, text string) {
		t.Helper()
		s.eventually("it halts: "+want, nil, func() bool {
			r, _ := s.r.records.View.Rollout(id)
			return r.GetState() == rolloutv1.State_STATE_HALTED && r.Reason.GetCode() == want
		})
		r := s.rollout(id)
		leftOut := r.Waves[1].Counts[uint32(rolloutv1.TargetState_TARGET_STATE_LEFT_OUT)]
		if !strings.Contains(r.Reason.Message, text) || leftOut > 0 {
			t.Errorf("%d servers are left out; it halted for %q, want %q", leftOut, r.Reason.Message, text)
		}
	}
	s.append(fact(ledger.Image, image, &imagev1.Disabled{Reason: "it leaks"}))
	s.control(id, registryv1.RolloutControl_ROLLOUT_CONTROL_APPROVE)
	halted(code.NotActive, "is disabled: it leaks")
	s.append(fact(ledger.Image, image, &imagev1.Deleted{}))
	s.control(id, registryv1.RolloutControl_ROLLOUT_CONTROL_RESUME)
	halted(code.NoMatch, "was deleted")
	q := &registryv1.ReplayRolloutRequest{RolloutId: id}
	if resp := must[*registryv1.ReplayRolloutResponse](s, "ReplayRollout", q); resp.Same != resp.Recorded {
		t.Errorf("replayed %v", resp)
	}
}
