package operator

import (
	"testing"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/noun/rollout"
)

// planRollout answers as a registry of a release that knows no start of rollouts: the intent comes back as it was.
func planRollout(q *registryv1.PlanRolloutRequest) (*registryv1.PlanRolloutResponse, error) {
	resp := &registryv1.PlanRolloutResponse{
		Intent: q.GetIntent(), Title: "upgrade beacon to 2.0.0", Waves: []uint32{1, 2},
	}
	if n := len(q.GetIntent().GetRollout().GetStrategy().GetKeep()); n > 0 { // it does not end
		resp.Forecast = &registryv1.ForecastRolloutResponse{Runs: 20}
		resp.Unlabelled, resp.NextCursor = []string{"label.rak"}, "more"
		resp.Steps = []*intentv1.Plan{{Agent: "beacon", Already: 5}}
		resp.Intent.Guard = &intentv1.Guard{Changed: 3}
	}
	return resp, nil
}

// The rollouts of the fake registry.
const (
	toApprove = "06a70000-0000-7000-8000-00000000000a"
	stepped   = "06a70000-0000-7000-8000-00000000000b"
	paused    = "06a70000-0000-7000-8000-00000000000c"
)

// rollouts returns rollouts that wait for a person: an approval, a resume after a wave, and the end of a pause.
func rollouts() []*rolloutv1.Rollout {
	one := func(id string, s *rolloutv1.Strategy) *rolloutv1.Rollout {
		done := map[uint32]uint32{uint32(rolloutv1.TargetState_TARGET_STATE_SUCCEEDED): 1}
		open := map[uint32]uint32{uint32(rolloutv1.TargetState_TARGET_STATE_PENDING): 2}
		return &rolloutv1.Rollout{
			Id: id, Actor: "ann", Title: "upgrade beacon to 2.0.0", Agents: []string{"beacon"}, Strategy: s,
			State: rolloutv1.State_STATE_RUNNING, Since: ago(0), PlannedAt: ago(0), Waves: []*rolloutv1.Wave{
				{Servers: 1, Counts: done, OpenedAt: ago(0), SettledAt: ago(0), PassedAt: ago(0)},
				{Servers: 2, Counts: open},
			},
		}
	}
	all := []*rolloutv1.Rollout{
		one(toApprove, &rolloutv1.Strategy{Approve: true}), one(stepped, nil), one(paused, nil),
	}
	all[1].UntilWave = 1
	all[2].State, all[2].Reason = rolloutv1.State_STATE_PAUSED, &apiv1.Refusal{Message: "lunch"}
	return all
}

func (f *fakes) rollouts(t testing.TB, s *bus.Service) {
	find := func(id string) (*rolloutv1.Rollout, error) {
		for _, r := range rollouts() {
			if r.GetId() == id {
				return r, nil
			}
		}
		if in := f.intent(id); in.GetIntent().GetRollout() != nil { // one that was started never ends
			r := rollouts()[1]
			r.Id, r.UntilWave, r.Waves[1].OpenedAt = in.GetId(), 0, ago(0)
			return r, nil
		}
		return nil, unknown("UNKNOWN_ROLLOUT", "rollout", id, "")
	}
	handle(t, f, s, "PlanRollout", planRollout)
	handle(t, f, s, "ListRollouts", func(q *registryv1.ListRolloutsRequest) (*registryv1.ListRolloutsResponse, error) {
		resp := &registryv1.ListRolloutsResponse{}
		for _, r := range rollouts() {
			if q.GetState() == 0 || q.GetState() == r.GetState() {
				resp.Rollouts = append(resp.Rollouts, r)
			}
		}
		return resp, nil
	})
	handle(t, f, s, "GetRollout", func(q *registryv1.GetRolloutRequest) (*registryv1.GetRolloutResponse, error) {
		r, err := find(q.GetRolloutId())
		return &registryv1.GetRolloutResponse{Rollout: r, WaitsFor: rollout.NeedText(r, noon)}, err
	})
	handle(t, f, s, "ControlRollout", func(q *registryv1.ControlRolloutRequest) (
		*registryv1.ControlRolloutResponse, error,
	) {
		r, err := find(q.GetRolloutId())
		if err != nil {
			return nil, err
		}
		switch r.State = rolloutv1.State_STATE_RUNNING; q.GetControl() {
		case registryv1.RolloutControl_ROLLOUT_CONTROL_RESUME:
			r.UntilWave = q.GetUntilWave()
		case registryv1.RolloutControl_ROLLOUT_CONTROL_STEP:
			r.UntilWave = rollout.Current(r)
		case registryv1.RolloutControl_ROLLOUT_CONTROL_PAUSE:
			r.State = rolloutv1.State_STATE_PAUSED
		case registryv1.RolloutControl_ROLLOUT_CONTROL_ABORT:
			r.State = rolloutv1.State_STATE_ABORTED
		}
		return &registryv1.ControlRolloutResponse{Rollout: r}, nil
	})
}
