package registry

import (
	"context"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/page"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
)

// plan returns what an intent would do if it were decided now. It writes nothing.
func (a *intentAPI) plan(
	ctx context.Context, c bus.Caller, q *registryv1.PlanIntentRequest,
) (*registryv1.PlanIntentResponse, error) {
	limit, err := pageLimit(q.Page)
	if err != nil {
		return nil, err
	}
	if q.EveryAgent && (q.Intent.GetUpgrade() == nil || q.Intent.GetUpgrade().Agent != "") {
		return nil, invalid(code.Malformed, "a plan for every agent needs an upgrade that names no agent")
	}
	if !q.EveryAgent && len(q.Exclude) > 0 {
		return nil, invalid(code.Malformed, "exclude needs a plan for every agent")
	}
	// A plan that lacks what the caller did a moment ago would be stale at once.
	if err := a.records.decider.CatchUp(ctx); err != nil {
		return nil, err
	}
	past, err := a.lookup.undone(ctx, q.Intent)
	if err != nil {
		return nil, err
	}
	var plans []intent.Planned
	resp := &registryv1.PlanIntentResponse{}
	a.records.follower.Read(func() {
		var intents []*intentv1.Intent
		if intents, err = a.planned(q); err != nil {
			return
		}
		for _, i := range intents {
			ask := intent.Ask{Actor: c.Actor, Intent: i, Undone: past, At: a.records.now(), Secrets: a.records.secrets}
			ask.Wrong = a.records.sealedWrong(i)
			plans = append(plans, intent.Plan(a.records.view, ask))
		}
		planPage(resp, plans, q, limit)
		resp = proto.CloneOf(resp) // its parts belong to the view
	})
	return answer(resp, err)
}

// planned returns the intents that a request plans. It must run inside Read.
func (a *intentAPI) planned(q *registryv1.PlanIntentRequest) ([]*intentv1.Intent, error) {
	if !q.EveryAgent {
		return []*intentv1.Intent{q.Intent}, nil
	}
	intents, refusal := intent.EveryAgent(a.records.view, q.Intent, q.Exclude)
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
			bytes := proto.Size(t)
			if len(resp.Targets) == limit || size > 0 && size+bytes > page.Bytes {
				last := resp.Targets[len(resp.Targets)-1]
				resp.NextCursor = last.Agent + "/" + last.ServerId
				return false
			}
			resp.Targets = append(resp.Targets, t)
			size += bytes
			return true
		})
	}
}
