package rollouts

import (
	"slices"

	"github.com/garrison-fleet/garrison/pkg/keep"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
	"github.com/garrison-fleet/garrison/services/registry/internal/rollout/forecast"
)

// takeBudgets adds to a world the standing keep budgets of its servers, and counts the other servers of their groups.
// It must run inside Read.
func (p *Past) takeBudgets(w *forecast.World) {
	of, inside := map[string][]rollout.Standing{}, keep.NewTally()
	for _, s := range w.Servers {
		budgets, groups := p.records.View.Budgets(s.ServerID)
		for n, b := range budgets {
			of[s.ServerID] = append(of[s.ServerID], rollout.Standing{Keep: b, Group: groups[n]})
		}
		inside.Set(s.ServerID, groups, p.records.View.Works(s.ServerID))
	}
	if len(of) == 0 {
		return
	}
	w.Budgets = forecast.Budgets{
		Of:      func(server string) []rollout.Standing { return slices.Clone(of[server]) },
		Outside: map[keep.Group]keep.Count{},
	}
	for _, budgets := range of {
		for _, b := range budgets {
			all, mine := p.records.View.InGroup(b.Group), inside.Of(b.Group)
			w.Budgets.Outside[b.Group] = keep.Count{All: all.All - mine.All, Working: all.Working - mine.Working}
		}
	}
}
