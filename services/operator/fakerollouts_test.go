package operator

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/rollout"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// planRollout answers with the intent as it was, and one server before the others.
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
	halted    = "06a70000-0000-7000-8000-0000000000a0" // in no list
	aborted   = "06a70000-0000-7000-8000-0000000000a1" // in no list
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
		if n := slices.Index([]string{halted, aborted}, id); n >= 0 {
			r := rollouts()[1]
			r.Id, r.State = id, []rolloutv1.State{rolloutv1.State_STATE_HALTED, rolloutv1.State_STATE_ABORTED}[n]
			r.Reason = &apiv1.Refusal{Code: "MAX_FAILED", Message: "too many servers are broken"}
			return r, nil
		}
		if in := f.intent(id); in.GetIntent().GetRollout() != nil { // one that was started never ends
			r := rollouts()[1]
			r.Id, r.UntilWave, r.Waves[1].OpenedAt = in.GetId(), 0, ago(0)
			return r, nil
		}
		return nil, unknown("NOT_FOUND", "rollout", id, "")
	}
	handle(t, f, s, "PlanRollout", planRollout)
	handle(t, f, s, "ListRollouts", func(q *registryv1.ListRolloutsRequest) (*registryv1.ListRolloutsResponse, error) {
		resp := &registryv1.ListRolloutsResponse{}
		for _, r := range rollouts() {
			if len(q.GetStates()) == 0 || slices.Contains(q.GetStates(), r.GetState()) {
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

// plans answers what intents would do, as their agents' names say: odd leaves a server out,
// stale holds when it is shown and not when it is published.
func (f *fakes) plans(t testing.TB, s *bus.Service) {
	handle(t, f, s, "PlanIntent", func(q *registryv1.PlanIntentRequest) (*registryv1.PlanIntentResponse, error) {
		r := &registryv1.PlanIntentResponse{}
		for _, i := range f.planned(q) {
			p, targets := f.planOf(i)
			r.Plans = append(r.Plans, p)
			r.Targets = append(r.Targets, targets...)
			for name, value := range i.GetConfigure().GetSet() {
				if name == "level" {
					r.Values = append(r.Values, &registryv1.ValueChange{
						Agent: p.Agent, Name: name, From: proto.String("info"), To: &value, Servers: 2,
					})
				}
			}
		}
		r.Targets = slices.DeleteFunc(r.Targets, func(t *intentv1.Target) bool {
			return len(q.Effects) > 0 && !slices.Contains(q.Effects, t.Effect)
		})
		return r, nil
	})
}

// planned returns the intents of a question; of every agent there are beacon and ghost.
func (f *fakes) planned(q *registryv1.PlanIntentRequest) []*intentv1.Intent {
	if !q.EveryAgent {
		return []*intentv1.Intent{q.Intent}
	}
	var out []*intentv1.Intent
	for _, name := range []string{"beacon", "ghost"} {
		if !slices.Contains(q.Exclude, name) {
			i := proto.CloneOf(q.Intent)
			i.GetUpgrade().Agent = name
			out = append(out, i)
		}
	}
	return out
}

func (f *fakes) planOf(i *intentv1.Intent) (*intentv1.Plan, []*intentv1.Target) {
	name := agentOf(i)
	if past := f.intents[i.GetUndo().GetIntentId()]; past != nil {
		name = strings.Replace(agentOf(past.GetIntent()), "gone", "same", 1) // another change came after it
	}
	p := &intentv1.Plan{Intent: proto.CloneOf(i), Agent: name, Changed: 2, TargetsSha256: []byte{1}}
	p.Intent.Guard = &intentv1.Guard{TargetsSha256: p.TargetsSha256, Changed: 2}
	target := func(id, server string) *intentv1.Target {
		t := &intentv1.Target{
			ServerId: id, ServerName: server, Agent: name, From: &imagev1.Ref{Version: "1.0.0"},
			To:     &imagev1.Ref{Id: web2, Version: "2.0.0", Digest: []byte{0xab, 0xcd, 0xef, 1, 2, 3, 4}},
			Effect: intentv1.Effect_EFFECT_CHANGE, Move: intentv1.Move_MOVE_UPGRADE,
		}
		if i.GetConfigure() != nil {
			t.To.Version, t.Move, t.Own = "1.0.0", intentv1.Move_MOVE_CONFIGURE, i.GetConfigure().GetSet()
		}
		return t
	}
	targets := []*intentv1.Target{target(web1, "web-1"), target(web2, "web-2")}
	if id := i.GetReinstall().GetServer(); id != "" {
		p.Changed, p.Intent.Guard.Changed = 1, 1
		targets = []*intentv1.Target{{
			ServerId: id, ServerName: "web", Effect: intentv1.Effect_EFFECT_CHANGE, Move: intentv1.Move_MOVE_REFRESH,
		}}
	}
	switch name {
	case "ghost":
		p.Changed, targets = 0, nil
		p.Refusal = &apiv1.Refusal{
			Code: "NO_MATCH", Component: ledger.Registry,
			Message: `no image of agent "ghost" for linux/amd64 in channel release (7 images searched)`,
			Try:     "garrison image list ghost",
		}
	case "same":
		p.Changed, p.Already, targets = 0, 2, nil
	case "many":
		p.Changed = 1200
	case "huge":
		p.Changed = 12_000
	case "away":
		p.Offline, p.OfflineServers = 12, []string{"web-2", "web-3", "web-4", "web-5"}
	case "odd":
		why := &apiv1.Refusal{
			Code:    "WRONG_PLATFORM",
			Message: "image x (odd 2.0.0 for linux/amd64) does not run on linux/arm64",
		}
		p.Changed, p.LeftOut = 1, 1
		p.Reasons = []*intentv1.Reason{
			{Code: why.Code, Effect: intentv1.Effect_EFFECT_LEFT_OUT, Count: 1, ServerIds: []string{web2}, First: why},
		}
		targets[1].Effect, targets[1].Reason = intentv1.Effect_EFFECT_LEFT_OUT, why
		targets[1].Move, targets[1].To = 0, nil
	case "stale":
		if f.intents["stale"] != nil { // it was published in between
			p.Changed, targets = 1, targets[1:]
		}
	}
	if i.GetInstall().GetImage().GetChannel() == "v2" {
		p.Changed, targets = 0, nil
		p.Refusal = &apiv1.Refusal{
			Code:      "UNKNOWN_CHANNEL",
			Component: ledger.Registry,
			Message:   `no channel "v2" (1 channel searched)`,
			Try:       "garrison channel list",
		}
	}
	return p, targets
}
