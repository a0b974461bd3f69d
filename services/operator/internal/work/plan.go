package work

import (
	"context"
	"slices"
	"strings"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// Planned is the registry's plan of one or more intents.
type Planned struct {
	asks    []*registryv1.PlanIntentRequest
	plans   []*intentv1.Plan
	targets []display.PlanTarget // up to the requested number
	values  []*registryv1.ValueChange
	more    uint32 // how many more changes of values there are
	many    bool   // for every agent: a refused plan does not end the others
}

// plan returns the plans of intents, with at most limit targets of each; 0 means all.
func plan(
	ctx context.Context, env *cli.Env, limit uint32, effects []intentv1.Effect, asks ...*registryv1.PlanIntentRequest,
) (*Planned, error) {
	c, err := env.Client(ctx)
	if err != nil {
		return nil, err
	}
	p := &Planned{asks: asks}
	for _, q := range asks {
		q.Effects = effects
		r, err := c.Plan(ctx, q, int(limit))
		if err != nil {
			return nil, err
		}
		p.plans = append(p.plans, r.GetPlans()...)
		p.targets = append(p.targets, byName(r.GetTargets())...)
		p.values, p.more = append(p.values, r.GetValues()...), p.more+r.GetMoreValues()
		p.many = p.many || q.EveryAgent
	}
	return p, nil
}

// byName sorts the targets of a plan by the names of their servers.
func byName(targets []display.PlanTarget) []display.PlanTarget {
	slices.SortStableFunc(targets, func(a, b display.PlanTarget) int {
		return strings.Compare(a.GetServerName(), b.GetServerName())
	})
	return targets
}

// document returns the plan as JSON prints it.
func (p *Planned) document() *registryv1.PlanIntentResponse {
	return &registryv1.PlanIntentResponse{
		Plans: p.plans, Targets: p.targets, Values: p.values, MoreValues: p.more,
	}
}

// changed returns the number of changes of the plans.
func (p *Planned) changed() int {
	n := 0
	for _, one := range p.plans {
		if one.GetRefusal() == nil {
			n += int(one.GetChanged())
		}
	}
	return n
}

// Widest returns how many servers one of the plans changes, also when it is refused because there are many.
func (p *Planned) Widest() (most uint32) {
	for _, one := range p.plans {
		if why := one.GetRefusal(); why == nil || why.Code == code.TooWide {
			most = max(most, one.GetChanged())
		}
	}
	return most
}

// refusal returns why nothing is done: the first refused plan; for plans of every agent only if all are refused.
func (p *Planned) refusal() error {
	for _, one := range p.plans {
		r := one.GetRefusal()
		if r != nil && (!p.many || p.refused() == len(p.plans)) {
			return client.Refused(takenForChannel(one.GetIntent(), r))
		}
	}
	return nil
}

// refused returns the number of refused plans.
func (p *Planned) refused() int {
	n := 0
	for _, one := range p.plans {
		if one.GetRefusal() != nil {
			n++
		}
	}
	return n
}
