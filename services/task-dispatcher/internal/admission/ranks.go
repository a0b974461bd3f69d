package admission

import (
	"iter"
	"math"
)

// Ranks tell which changes of an agent may have to wait for one of another agent on the same server. Such a change is
// queued first: of the decisions of one intent the first is seen before the others.
type Ranks struct {
	agents  map[string]Agent
	needed  map[string]bool // the agents that another one needs
	lowest  uint32
	highest uint32
}

// NewRanks returns the ranks of agents, by name.
func NewRanks(agents iter.Seq2[string, Agent]) Ranks {
	r := Ranks{agents: map[string]Agent{}, needed: map[string]bool{}, lowest: math.MaxUint32}
	for name, a := range agents {
		r.agents[name] = a
		r.lowest, r.highest = min(r.lowest, a.Tier), max(r.highest, a.Tier)
		for _, needed := range a.Dependencies {
			r.needed[needed] = true
		}
	}
	return r
}

// MayWait reports whether a change of an agent, or its removal, may have to wait for a change of another one.
func (r Ranks) MayWait(agent string, removes bool) bool {
	a, known := r.agents[agent]
	if removes {
		return r.needed[agent] || a.Tier < r.highest
	}
	return len(a.Dependencies) > 0 || known && a.Tier > r.lowest
}
