package registry

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
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

func TestARejectionHaltsTheRolloutAndAResumeWaitsForAnApprovalAgain(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 6)
	id := s.accepted(topology.VerbRollout, waves(&rolloutv1.Strategy{Approve: true})).Id
	no := &registryv1.AnswerRolloutRequest{RolloutId: id, Answer: reject, Wave: 2, Reason: "the smoke test fails"}
	if have := s.answer("qa", &registryv1.AnswerRolloutRequest{RolloutId: id, Answer: reject, Wave: 2}); have !=
		code.BadReason {
		t.Errorf("a rejection without a reason: %q", have)
	}
	if have := s.answer("qa", &registryv1.AnswerRolloutRequest{RolloutId: id}); have != code.Malformed {
		t.Errorf("no answer: %q", have)
	}
	ahead := &registryv1.AnswerRolloutRequest{RolloutId: id, Answer: approve, Wave: 2}
	if have := s.answer("qa", ahead); have != "none" {
		t.Errorf("an approval ahead: %q", have)
	}
	for range 2 {
		if have := s.answer("qa", no); have != "none" {
			t.Errorf("a rejection: %q", have)
		}
	}
	r := s.rollout(id)
	if r.State != rolloutv1.State_STATE_HALTED || r.Reason.GetCode() != code.WaveRejected ||
		!strings.Contains(r.Reason.Message, "qa rejected wave 2: the smoke test fails") || r.Waves[1].ApprovedBy != "" {
		t.Errorf("after it: %v", r)
	}
	s.control(id, registryv1.RolloutControl_ROLLOUT_CONTROL_RESUME)
	s.eventually("the first wave passed", nil, func() bool {
		r, _ := s.r.records.View.Rollout(id)
		return r.GetWaves()[0].PassedAt != nil
	})
	if r := s.rollout(id); r.Waves[1].OpenedAt != nil {
		t.Errorf("the wave that was rejected began: %v", r)
	}
	s.control(id, registryv1.RolloutControl_ROLLOUT_CONTROL_ABORT)
	q := &registryv1.ReplayRolloutRequest{RolloutId: id}
	if resp := must[*registryv1.ReplayRolloutResponse](s, "ReplayRollout", q); resp.Same != resp.Recorded {
		t.Errorf("replayed %v", resp)
	}
}

func TestAWaveThatWaitsForNoApprovalCannotBeRejected(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 6)
	strategy := &rolloutv1.Strategy{}
	id := s.accepted(topology.VerbRollout, waves(strategy)).Id
	no := &registryv1.AnswerRolloutRequest{RolloutId: id, Answer: reject, Wave: 3, Reason: "no"}
	if have := s.answer("qa", no); have != code.RolloutNotFit {
		t.Errorf("a wave without a gate: %q", have)
	}
	if no.Wave = 9; s.answer("qa", no) != code.RolloutNotFit {
		t.Error("a wave that does not exist is rejected")
	}
	s.eventually("it succeeds", nil, s.is(id, rolloutv1.State_STATE_SUCCEEDED))
	if no.Wave = 0; s.answer("qa", no) != code.RolloutNotFit {
		t.Error("a rollout that ended is rejected")
	}
}

// An approval that names no wave means the one that waits, so a command that is sent twice approves one wave.
func TestAnApprovalWithoutAWaveApprovesOnlyTheOneThatWaits(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 6)
	in := staged(taking(1), taking(1), taking(1))
	in.GetRollout().Strategy.Approve, in.GetRollout().StartAt = true, timestamppb.New(time.Now().Add(time.Hour))
	id := s.accepted(topology.VerbRollout, in).Id
	yes := &registryv1.AnswerRolloutRequest{RolloutId: id, Answer: approve}
	_, err := bus.Call[*emptypb.Empty](t.Context(), s.ops, ledger.Registry, methods.ByName("AnswerRollout"), yes)
	if codeOf(err) != code.RolloutNotFit || !strings.Contains(fmt.Sprint(fault.RefusalOf(err)), "--wave 2") {
		t.Errorf("an approval while no wave waits: %v; want a refusal that names the wave to approve ahead", err)
	}
	ahead := &registryv1.AnswerRolloutRequest{RolloutId: id, Answer: approve, Wave: 2}
	must[*registryv1.AnswerRolloutResponse](s, "AnswerRollout", ahead)
	resp := must[*registryv1.AnswerRolloutResponse](s, "AnswerRollout", yes)
	if resp.Wave != 2 || !resp.Already || resp.Rollout.Waves[2].ApprovedBy != "" {
		t.Errorf("sent twice, it approved wave %d: %v", resp.Wave, resp)
	}
	now := fact(ledger.Rollout, id, &rolloutv1.Opened{Wave: 1})
	s.append(now, fact(ledger.Rollout, id, &rolloutv1.Passed{Wave: 1}))
	s.append(fact(ledger.Rollout, id, &rolloutv1.Opened{Wave: 2}))
	resp = must[*registryv1.AnswerRolloutResponse](s, "AnswerRollout", yes)
	if resp.Wave != 2 || !resp.Already || resp.Rollout.Waves[2].ApprovedBy != "" {
		t.Errorf("while wave 2 is under way, it approved wave %d: %v", resp.Wave, resp)
	}
	s.append(fact(ledger.Rollout, id, &rolloutv1.Passed{Wave: 2}))
	if have := s.answer("qa", ahead); have != code.RolloutNotFit {
		t.Errorf("an approval of a wave that passed: %q", have)
	}
	resp = must[*registryv1.AnswerRolloutResponse](s, "AnswerRollout", yes)
	if resp.Wave != 3 || resp.Already || resp.Rollout.Waves[2].ApprovedBy != "alice" {
		t.Errorf("once wave 2 passed, it approved wave %d: %v", resp.Wave, resp)
	}
	s.control(id, registryv1.RolloutControl_ROLLOUT_CONTROL_ABORT)
	for _, wave := range []uint32{0, 3} {
		yes.Wave = wave
		if have := s.answer("qa", yes); have != code.RolloutNotFit {
			t.Errorf("an approval of wave %d of a rollout that ended: %q", wave, have)
		}
	}
}

func TestAnApprovalThatNoWaveWaitsForIsRefused(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 6)
	in := staged(taking(1), taking(1), taking(1))
	in.GetRollout().StartAt = timestamppb.New(time.Now().Add(time.Hour))
	id := s.accepted(topology.VerbRollout, in).Id
	refused := func(wave uint32) {
		t.Helper()
		q := &registryv1.AnswerRolloutRequest{RolloutId: id, Answer: approve, Wave: wave}
		if have := s.answer("qa", q); have != code.RolloutNotFit {
			t.Errorf("an approval of wave %d: %q", wave, have)
		}
	}
	for _, wave := range []uint32{0, 3, 9} {
		refused(wave)
	}
	s.append(fact(ledger.Rollout, id, &rolloutv1.Halted{Wave: 1, Reason: &apiv1.Refusal{Code: code.TooManyBroken}}))
	for _, wave := range []uint32{0, 3, 9} {
		refused(wave)
	}
}

func TestAnApprovalByAnotherThatWouldGateNoWaveIsRefused(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 3)
	offline := func() (drafts []ledger.Draft) {
		for _, id := range s.serverIDs() {
			drafts = append(drafts, fact(ledger.Server, id, &serverv1.Offline{}))
		}
		return drafts
	}
	approved := taking(3)
	approved.Approve = true
	for _, c := range []struct {
		name     string
		strategy *rolloutv1.Strategy
		before   func() []ledger.Draft
		want     string
	}{
		{"one wave", &rolloutv1.Strategy{Stages: []*rolloutv1.Stage{taking(3)}}, nil, "in one wave"},
		{"one wave with a gate", &rolloutv1.Strategy{Stages: []*rolloutv1.Stage{approved}}, nil, ""},
		{"two waves", &rolloutv1.Strategy{Stages: []*rolloutv1.Stage{taking(1)}}, nil, ""},
		{"an emergency", &rolloutv1.Strategy{Stages: []*rolloutv1.Stage{taking(1)}, Emergency: true}, nil, "emergency"},
		{"all are offline", &rolloutv1.Strategy{Stages: []*rolloutv1.Stage{taking(1)}}, offline, "come back"},
	} {
		if c.before != nil {
			s.append(c.before()...)
		}
		in := waves(&rolloutv1.Strategy{})
		in.GetRollout().Strategy = c.strategy
		c.strategy.ApproveByOther = true
		plan := must[*registryv1.PlanRolloutResponse](s, "PlanRollout", &registryv1.PlanRolloutRequest{Intent: in})
		refused := plan.Refusal.GetCode() == code.BadStrategy && strings.Contains(plan.Refusal.GetMessage(), c.want)
		if refused != (c.want != "") || c.want == "" && plan.Refusal != nil {
			t.Errorf("%s: %v; want a refusal with %q", c.name, plan.Refusal, c.want)
		}
	}
}
