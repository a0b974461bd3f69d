package rolling

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// UnknownRollout refuses a rollout that the view does not keep.
func UnknownRollout(id string) *apiv1.Refusal {
	return &apiv1.Refusal{
		Code: code.UnknownRollout, Component: ledger.Registry, Try: "garrison rollout list",
		Message: fmt.Sprintf("no rollout %q, or it ended too long ago to be kept", id),
	}
}

// undo plans to take every server that a rollout touched back to what it had, unless another intent changed it since.
func (p *planner) undo(q *intentv1.Rollout) *apiv1.Refusal {
	past, ok := p.reader.Rollout(q.UndoOf)
	switch {
	case !ok:
		return UnknownRollout(q.UndoOf)
	case len(q.Steps) > 0 || q.On != nil:
		return &apiv1.Refusal{Code: code.Malformed, Message: "an undo has neither steps nor a selector"}
	case past.State == rolloutv1.State_STATE_UNDONE:
		return &apiv1.Refusal{
			Code: code.NotUndoable, Message: fmt.Sprintf("rollout %s was undone by rollout %s", past.Id, past.UndoneBy),
			Try: "garrison rollout show " + past.UndoneBy,
		}
	}
	if p.Strategy == nil {
		p.Strategy = proto.CloneOf(past.Strategy)
		for _, stage := range p.Strategy.GetStages() { // fewer may be left than there were canaries
			if n := stage.GetCanaries(); n > 0 {
				stage.Size = &rolloutv1.Stage_Servers{Servers: n}
			}
		}
	}
	p.Agents, p.Title = past.Agents, "undo of "+past.Title
	plan := &intentv1.Plan{}
	p.Steps = append(p.Steps, plan)
	for t := range p.reader.Targets(past.Id, "") {
		p.undoTarget(t, plan)
	}
	if len(p.byServer) == 0 {
		return &apiv1.Refusal{
			Code: code.NothingLeft, Message: "no server is as rollout " + past.Id + " left it",
			Try: "garrison rollout show " + past.Id,
		}
	}
	return nil
}

func (p *planner) undoTarget(t *rolloutv1.Target, plan *intentv1.Plan) {
	s, ok := p.reader.Server(t.ServerId)
	if !ok || s.Life != serverv1.Life_LIFE_ALIVE || t.RestoredBy != "" {
		return
	}
	for n, id := range t.IntentIds {
		if id == "" {
			continue
		}
		c := t.Changes[n]
		have, there := p.reader.Instance(t.ServerId, c.Agent)
		if there && have.IntentId != id {
			id = "" // it is asked for anew, where what the rollout brought is wanted again
		}
		if !there && c.To != nil || id == "" && !asLeft(have, c) {
			plan.LeftOut++
			continue
		}
		undone := p.target(t.ServerId)
		undone.Changes = append(undone.Changes, &rolloutv1.Change{
			Agent: c.Agent, From: placed(have), To: c.From, FromConfiguration: digest(have.GetConfiguration()),
			ToConfiguration: c.FromConfiguration,
		})
		undone.UndoIntentIds = append(undone.UndoIntentIds, id)
	}
	if p.byServer[t.ServerId] != nil {
		plan.Changed++
	}
}

// asLeft reports whether a rollout's change is what is wanted of an instance, and only its image has to go back.
func asLeft(have *instancev1.Instance, c *rolloutv1.Change) bool {
	if c.To == nil || have.GetWanted() == nil || !instance.SameImage(have.Wanted, c.To) {
		return false
	}
	is := digest(have.Configuration)
	return is == c.ToConfiguration && (c.From == nil || is == c.FromConfiguration)
}

func placed(i *instancev1.Instance) *imagev1.Ref {
	if i == nil {
		return nil
	}
	return instance.Placed(i)
}
