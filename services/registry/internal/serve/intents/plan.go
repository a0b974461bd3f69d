package intents

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
)

// Plan returns what an intent would do if it were decided now. It writes nothing.
func (a *API) Plan(
	ctx context.Context, c bus.Caller, q *registryv1.PlanIntentRequest,
) (*registryv1.PlanIntentResponse, error) {
	limit, err := request.PageLimit(q.Page)
	if err != nil {
		return nil, err
	}
	if q.EveryAgent && (q.Intent.GetUpgrade() == nil || q.Intent.GetUpgrade().Agent != "") {
		return nil, request.Invalid(code.Malformed, "a plan for every agent needs an upgrade that names no agent")
	}
	if !q.EveryAgent && len(q.Exclude) > 0 {
		return nil, request.Invalid(code.Malformed, "exclude needs a plan for every agent")
	}
	// A plan that lacks what the caller did a moment ago would be stale at once.
	if err := a.records.Decider.CatchUp(ctx); err != nil {
		return nil, err
	}
	past, err := a.lookup.Undone(ctx, q.Intent)
	if err != nil {
		return nil, err
	}
	var plans []intent.Planned
	resp := &registryv1.PlanIntentResponse{}
	a.records.Follower.Read(func() {
		var intents []*intentv1.Intent
		if intents, err = a.planned(q); err != nil {
			return
		}
		for _, i := range intents {
			ask := intent.Ask{Actor: c.Actor, Intent: i, Undone: past, At: a.records.Now(), Secrets: a.records.Secrets}
			ask.Wrong = a.records.SealedWrong(i)
			plans = append(plans, intent.Plan(a.records.View, ask))
		}
		request.PlanPage(resp, plans, q, limit)
		if q.Page.GetCursor() == "" {
			resp.Values, resp.MoreValues = a.values(plans)
		}
		resp = proto.CloneOf(resp) // its parts belong to the view
	})
	return request.Answer(resp, err)
}

// planned returns the intents that a request plans. It must run inside Read.
func (a *API) planned(q *registryv1.PlanIntentRequest) ([]*intentv1.Intent, error) {
	if !q.EveryAgent {
		return []*intentv1.Intent{q.Intent}, nil
	}
	intents, refusal := intent.EveryAgent(a.records.View, q.Intent, q.Exclude)
	if refusal != nil {
		return nil, request.NotFound(refusal)
	}
	return intents, nil
}

// values returns how configurations of agents that are there change, which costs a look at each change. It must run
// inside Read.
func (a *API) values(plans []intent.Planned) ([]*registryv1.ValueChange, uint32) {
	changes := intent.ValueChanges{}
	for _, p := range plans {
		p.Changes(func(c intent.Change) {
			if have, _ := a.records.View.Instance(c.Server.Id, c.Agent); have != nil && c.To != nil {
				changes.Add(c.Agent, have.GetConfiguration().GetMetadata(), c.Configuration.GetMetadata())
			}
		})
	}
	return changes.List()
}
