package forecast

import (
	"github.com/garrison-fleet/garrison/pkg/keep"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

// Budgets are the standing keep budgets of the environments of a world.
type Budgets struct {
	Of      func(server string) []rollout.Standing // of a server, without counts; nil means that there are none
	Outside map[keep.Group]keep.Count              // the servers that the rollout leaves as they are
}

// standing returns the budgets of a server with the counts of the moment.
func (s *simulation) standing(server string) []rollout.Standing {
	if s.Budgets.Of == nil {
		return nil
	}
	of := s.Budgets.Of(server)
	for n := range of {
		outside, inside := s.Budgets.Outside[of[n].Group], s.kept.Of(of[n].Group)
		of[n].Count = keep.Count{All: outside.All + inside.All, Working: outside.Working + inside.Working}
	}
	return of
}

// recount counts a server for the standing budgets as it is now.
func (s *simulation) recount(i int) {
	if s.Budgets.Of == nil {
		return
	}
	var groups []keep.Group
	for _, b := range s.Budgets.Of(s.Servers[i].ServerID) {
		groups = append(groups, b.Group)
	}
	s.kept.Set(s.Servers[i].ServerID, groups, s.working(i))
}
