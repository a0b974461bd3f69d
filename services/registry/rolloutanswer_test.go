package registry

import (
	"testing"

	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

const (
	approve = registryv1.RolloutAnswer_ROLLOUT_ANSWER_APPROVE
	reject  = registryv1.RolloutAnswer_ROLLOUT_ANSWER_REJECT
)

// answer answers the gate of a rollout as an actor, and returns the code of a refusal.
func (s *site) answer(actor string, q *registryv1.AnswerRolloutRequest) string {
	s.t.Helper()
	conn := s.ops
	if actor != "alice" {
		conn = s.bus.Dial(s.t, actor)
	}
	_, err := bus.Call[*emptypb.Empty](s.t.Context(), conn, ledger.Registry, methods.ByName("AnswerRollout"), q)
	return codeOf(err)
}

func TestAnApprovalMustComeFromAnotherThanWhoStartedTheRollout(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 6)
	id := s.accepted(topology.VerbRollout, waves(&rolloutv1.Strategy{ApproveByOther: true})).Id
	s.eventually("the first wave passed", nil, func() bool {
		r, _ := s.r.records.View.Rollout(id)
		return r.GetWaves()[0].PassedAt != nil
	})
	yes := &registryv1.AnswerRolloutRequest{RolloutId: id, Answer: approve}
	if have := s.answer("alice", yes); have != code.ApproverStarted {
		t.Errorf("an approval by who started it: %q", have)
	}
	own := &registryv1.ControlRolloutRequest{
		RolloutId: id, Control: registryv1.RolloutControl_ROLLOUT_CONTROL_APPROVE,
	}
	if have := s.code("ControlRollout", own); have != code.ApproverStarted {
		t.Errorf("the same by ControlRollout: %q", have)
	}
	resp := must[*registryv1.GetRolloutResponse](s, "GetRollout", &registryv1.GetRolloutRequest{RolloutId: id})
	if resp.WaitsFor != "an approval of wave 2 by another than alice" {
		t.Errorf("it waits for %q", resp.WaitsFor)
	}
	if have := s.answer("qa", yes); have != "none" {
		t.Errorf("an approval by another: %q", have)
	}
	s.eventually("the second wave passed", nil, func() bool {
		r, _ := s.r.records.View.Rollout(id)
		return r.GetWaves()[1].PassedAt != nil
	})
	if by := s.rollout(id).Waves[1].ApprovedBy; by != "qa" {
		t.Errorf("approved by %q", by)
	}
}
