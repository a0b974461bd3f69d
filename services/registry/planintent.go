package registry

import (
	"context"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
)

// planIntent answers what an intent would do if it were decided now. It writes nothing.
func (r *Registry) planIntent(
	ctx context.Context, c bus.Caller, q *registryv1.PlanIntentRequest,
) (*registryv1.PlanIntentResponse, error) {
	limit, err := pageLimit(q.Page)
	if err != nil {
		return nil, err
	}
	if q.EveryAgent && (q.Intent.GetUpgrade() == nil || q.Intent.GetUpgrade().Agent != "") {
		return nil, invalid("MALFORMED", "a plan for every agent is of an upgrade that names none")
	}
	if !q.EveryAgent && len(q.Exclude) > 0 {
		return nil, invalid("MALFORMED", "agents are excluded only from a plan for every agent")
	}
	// A plan that misses what the caller did a moment ago would be stale at once.
	if err := r.catchUp(ctx); err != nil {
		return nil, err
	}
	past, err := r.undone(ctx, q.Intent)
	if err != nil {
		return nil, err
	}
	var plans []intent.Planned
	resp := &registryv1.PlanIntentResponse{}
	r.follower.Read(func() {
		var intents []*intentv1.Intent
		if intents, err = r.planned(q); err != nil {
			return
		}
		for _, i := range intents {
			plans = append(plans, intent.Plan(r.view, intent.Ask{Actor: c.Actor, Intent: i, Undone: past, At: r.Now()}))
		}
		planPage(resp, plans, q, limit)
		resp = proto.CloneOf(resp) // what it refers to is of the view
	})
	return answer(resp, err)
}

// planned returns the intents of which a plan is asked for. It must run inside Read.
func (r *Registry) planned(q *registryv1.PlanIntentRequest) ([]*intentv1.Intent, error) {
	if !q.EveryAgent {
		return []*intentv1.Intent{q.Intent}, nil
	}
	intents, refusal := intent.EveryAgent(r.view, q.Intent, q.Exclude)
	if refusal != nil {
		return nil, notFound(refusal)
	}
	return intents, nil
}

// planPage adds the plans and one part of their targets to an answer. The cursor is the
// agent and the server of the last target.
func planPage(resp *registryv1.PlanIntentResponse, plans []intent.Planned, q *registryv1.PlanIntentRequest, limit int) {
	agent, server, _ := strings.Cut(q.Page.GetCursor(), "/")
	size := 0
	for _, p := range plans {
		resp.Plans = append(resp.Plans, p.Plan)
		after := ""
		switch {
		case p.Agent < agent || resp.NextCursor != "":
			continue
		case p.Agent == agent:
			after = server
		}
		p.Targets(after, q.Effects, func(t *intentv1.Target) bool {
			if len(resp.Targets) == limit || size > pageBytes {
				last := resp.Targets[len(resp.Targets)-1]
				resp.NextCursor = last.Agent + "/" + last.ServerId
				return false
			}
			resp.Targets = append(resp.Targets, t)
			size += proto.Size(t)
			return true
		})
	}
}
