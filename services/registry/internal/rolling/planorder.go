package rolling

import (
	"fmt"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// order orders the changes of each server, and leaves out those on which no order keeps what images require of each
// other. It refuses a rollout whose images contradict each other, before it reaches any server.
func (p *planner) order() *apiv1.Refusal {
	known := orders{}
	for _, id := range p.serverIDs() {
		t := p.byServer[id]
		why, contradicts := known.order(p.reader, t)
		switch {
		case why == nil:
			continue
		case contradicts || p.ask.Intent.GetStrict():
			s, _ := p.reader.Server(id)
			why.Message += fmt.Sprintf(" (on server %q)", s.GetName())
			return why
		}
		delete(p.byServer, id)
		for n, agent := range p.Agents {
			if slices.ContainsFunc(t.Changes, func(c *rolloutv1.Change) bool { return c.Agent == agent }) {
				p.Steps[n].Changed--
				p.Steps[n].LeftOut++
				p.reason(p.Steps[n], id, why)
			}
		}
	}
	return nil
}

// namedByReason is how many servers a reason names.
const namedByReason = 10

func (p *planner) reason(plan *intentv1.Plan, server string, why *apiv1.Refusal) {
	n := slices.IndexFunc(plan.Reasons, func(r *intentv1.Reason) bool { return r.Code == why.Code })
	if n < 0 {
		n = len(plan.Reasons)
		plan.Reasons = append(plan.Reasons, &intentv1.Reason{
			Code: why.Code, Effect: intentv1.Effect_EFFECT_LEFT_OUT, First: why,
		})
	}
	r := plan.Reasons[n]
	if r.Count++; len(r.ServerIds) < namedByReason {
		r.ServerIds = append(r.ServerIds, server)
	}
}

// leftOut returns why servers were left out for their order, or nil.
func (p *planner) leftOut() *apiv1.Refusal {
	for _, plan := range p.Steps {
		for _, r := range plan.Reasons {
			if r.Code == code.ImpossibleSet || r.Code == code.RequirementUnmet {
				return r.First
			}
		}
	}
	return nil
}

// noneChanges refuses a rollout that changes no server, with the reasons of those that are left out, counted.
func (p *planner) noneChanges() *apiv1.Refusal {
	why := &apiv1.Refusal{
		Code: code.NothingLeft, Message: "every selected server is as asked already",
		Try: "garrison instance list --agent " + p.Agents[0],
	}
	var counted []string
	var first *intentv1.Reason
	already, one := uint32(0), true
	for _, plan := range p.Steps {
		already += plan.Already
		for _, r := range plan.Reasons {
			if r.Effect != intentv1.Effect_EFFECT_LEFT_OUT {
				continue
			}
			if first == nil {
				first = r
			}
			one = one && r.Code == first.Code
			counted = append(counted, fmt.Sprintf("%d %s", r.Count, r.Code))
		}
	}
	if first == nil {
		return why
	}
	if already > 0 {
		counted = append(counted, fmt.Sprintf("%d as asked already", already))
	}
	why.Message = fmt.Sprintf("nothing can be changed: %s; the first: %s", strings.Join(counted, ", "),
		first.First.GetMessage())
	if why.Try = "garrison rollout plan, which lists the reasons"; one {
		why.Code, why.Try = first.Code, first.First.GetTry()
	}
	return why
}
