package keep

import (
	"slices"

	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// Tally counts the servers of each group, and those that work. It holds only servers that are in a group. A Tally is
// not safe for concurrent use.
type Tally struct {
	groups  map[Group]*Count
	members map[string]member
}

// member is a server as it is counted.
type member struct {
	groups []Group
	works  bool
}

// NewTally returns a tally without servers.
func NewTally() *Tally { return &Tally{groups: map[Group]*Count{}, members: map[string]member{}} }

// Set counts a server in its groups, and no longer in those that it was in before. One without groups is not counted.
func (t *Tally) Set(server string, groups []Group, works bool) {
	have, known := t.members[server]
	if known && have.works == works && slices.Equal(have.groups, groups) || !known && len(groups) == 0 {
		return
	}
	t.count(have, -1)
	if len(groups) == 0 {
		delete(t.members, server)
		return
	}
	next := member{groups, works}
	t.members[server] = next
	t.count(next, +1)
}

// Drop counts a server no longer.
func (t *Tally) Drop(server string) { t.Set(server, nil, false) }

func (t *Tally) count(m member, by int) {
	for _, g := range m.groups {
		c := t.groups[g]
		if c == nil {
			c = &Count{}
			t.groups[g] = c
		}
		if c.All += by; m.works {
			c.Working += by
		}
		if c.All == 0 {
			delete(t.groups, g)
		}
	}
}

// Of returns the count of a group.
func (t *Tally) Of(g Group) Count {
	if c := t.groups[g]; c != nil {
		return *c
	}
	return Count{}
}

// GroupsOf returns the groups of a server; the caller must not change them.
func (t *Tally) GroupsOf(server string) []Group { return t.members[server].groups }

// Works reports whether a counted server works.
func (t *Tally) Works(server string) bool { return t.members[server].works }

// Empty reports whether no server is counted, so that no budget can hold one back.
func (t *Tally) Empty() bool { return len(t.members) == 0 }

// Spending is what budgets still allow within one decision.
type Spending struct {
	tally *Tally
	taken map[string]bool
	spent map[Group]int
}

// NewSpending begins a decision that rests on a tally.
func NewSpending(t *Tally) *Spending {
	return &Spending{tally: t, taken: map[string]bool{}, spent: map[Group]int{}}
}

// Take reports whether a server may be taken away now, and spends it in each of its groups if so; otherwise it returns
// the position of the budget that holds it back. budgets are those by which the server's groups were made.
func (s *Spending) Take(server string, budgets []*rolloutv1.Keep) (held int, ok bool) {
	groups := s.tally.GroupsOf(server)
	if s.taken[server] || !s.tally.Works(server) || len(groups) != len(budgets) {
		return 0, true
	}
	for n, g := range groups {
		c := s.tally.Of(g)
		if c.Working-s.spent[g] <= Needed(budgets[n], c.All) {
			return n, false
		}
	}
	for _, g := range groups {
		s.spent[g]++
	}
	s.taken[server] = true
	return 0, true
}
