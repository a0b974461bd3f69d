package rollouts

import (
	"cmp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/keep"
	rollouts "github.com/garrison-fleet/garrison/pkg/noun/rollout"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rolling"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// The most other rollouts and keep budgets that a plan names.
const mostBeside, mostTight = 20, 20

// addOthers adds to a plan the other rollouts that share servers or slots with it, and the keep budgets that hold part
// of it back. It must run inside Read.
func (a *API) addOthers(resp *registryv1.PlanRolloutResponse, p rolling.Planned) {
	common := map[string]uint32{}
	groups, budgets := map[keep.Group]uint32{}, map[keep.Group]*rolloutv1.Keep{}
	for _, t := range p.Targets {
		for _, id := range a.records.View.RolloutsOn(t.ServerId) {
			common[id]++
		}
		of, in := a.records.View.Budgets(t.ServerId)
		for n, g := range in {
			groups[g]++
			budgets[g] = of[n]
		}
	}
	for _, r := range a.records.View.Rollouts() {
		left := inState(r, rolloutv1.TargetState_TARGET_STATE_PENDING) +
			inState(r, rolloutv1.TargetState_TARGET_STATE_REACHED)
		if rollouts.Ended(r.State) || r.Id == p.Undoes || left == 0 || len(resp.Beside) == mostBeside {
			continue
		}
		resp.Beside = append(resp.Beside, &registryv1.BesideRollout{
			RolloutId: r.Id, Title: r.Title, Servers: common[r.Id], Left: uint32(left),
		})
	}
	sizes := a.groupsKept(p, groups, budgets)
	for g, changes := range groups {
		c, own := sizes[g]
		if !own {
			c = a.records.View.InGroup(g)
		}
		needed := keep.Needed(budgets[g], c.All)
		if c.Working-needed >= int(changes) {
			continue
		}
		resp.Budgets = append(resp.Budgets, &registryv1.TightBudget{
			Environment: g.Environment, Keep: proto.CloneOf(budgets[g]), Value: g.Value, All: uint32(c.All),
			Working: uint32(c.Working), Needed: uint32(needed), Changes: changes,
		})
	}
	slices.SortFunc(resp.Budgets, func(x, y *registryv1.TightBudget) int {
		spare := func(b *registryv1.TightBudget) int { return int(b.Working) - int(b.Needed) }
		return cmp.Or(cmp.Compare(spare(x), spare(y)), cmp.Compare(x.Environment, y.Environment),
			cmp.Compare(x.Keep.Field, y.Keep.Field), cmp.Compare(x.Value, y.Value))
	})
	resp.Budgets = resp.Budgets[:min(mostTight, len(resp.Budgets))]
}

// groupsKept adds the groups of the budgets of a plan's own strategy to those that hold for its servers, with how many
// of them it changes, and returns how many servers they have and work. It must run inside Read.
func (a *API) groupsKept(
	p rolling.Planned, changes map[keep.Group]uint32, of map[keep.Group]*rolloutv1.Keep,
) map[keep.Group]keep.Count {
	sizes := map[keep.Group]keep.Count{}
	if len(p.Strategy.GetKeep()) == 0 {
		return sizes
	}
	group := func(s *serverv1.Server, k *rolloutv1.Keep) keep.Group {
		return keep.Group{Field: k.Field, Value: selector.Value(s, k.Field)}
	}
	for s := range a.records.View.ServersWhere("", nil) {
		for _, k := range p.Strategy.GetKeep() {
			g := group(s, k)
			c := sizes[g]
			if c.All++; a.records.View.Works(s.Id) {
				c.Working++
			}
			sizes[g] = c
		}
	}
	for _, t := range p.Targets {
		s, _ := a.records.View.Server(t.ServerId)
		for _, k := range p.Strategy.GetKeep() {
			g := group(s, k)
			changes[g]++
			of[g] = k
		}
	}
	return sizes
}

// addUnlabelled adds to a plan the labels that its strategy names and none of its servers has, which a mistyped name
// leads to. It must run inside Read.
func (a *API) addUnlabelled(resp *registryv1.PlanRolloutResponse, p rolling.Planned) {
	named := append(slices.Clone(p.Strategy.GetCover()), p.Strategy.GetSpread())
	for _, k := range p.Strategy.GetKeep() {
		named = append(named, k.GetField())
	}
	slices.Sort(named)
	for _, field := range slices.Compact(named) {
		label, is := strings.CutPrefix(field, "label.")
		has := func(t *rolloutv1.Target) bool {
			s, _ := a.records.View.Server(t.ServerId)
			return s.GetLabels()[label] != ""
		}
		if is && len(p.Targets) > 0 && !slices.ContainsFunc(p.Targets, has) {
			resp.Unlabelled = append(resp.Unlabelled, field)
		}
	}
}

// addUnused adds what servers of a rollout that was aborted or undone fetched ahead, and it does not bring them any
// more. It must run inside Read.
func (a *API) addUnused(resp *registryv1.GetRolloutResponse, r *rolloutv1.Rollout) {
	if r.FetchedAhead == 0 || r.State != rolloutv1.State_STATE_ABORTED && r.State != rolloutv1.State_STATE_UNDONE {
		return
	}
	for t := range a.records.View.Targets(r.Id, "") {
		bytes := rolling.UnusedBytes(a.records.View, t)
		if bytes > 0 {
			resp.Unused, resp.UnusedBytes = resp.Unused+1, resp.UnusedBytes+bytes
		}
	}
}
