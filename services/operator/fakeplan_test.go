package operator

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

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
		name = agentOf(past.GetIntent())
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
			ServerId: id, ServerName: "web", Effect: intentv1.Effect_EFFECT_CHANGE, Move: intentv1.Move_MOVE_SERVER,
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
