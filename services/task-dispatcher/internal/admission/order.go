package admission

import "fmt"

// order is the order of the unfinished changes of one server. Removals and other changes are ordered
// separately, except that a change waits for any change of an agent that it needs.
type order struct {
	tasks  []Task
	agents func(string) Agent
	needs  map[string]map[string]bool // by agent: the agents that it needs, also indirectly
	early  map[string]uint32          // the lowest tier of an agent and the listed agents that need it
	late   map[string]uint32          // the highest tier of an agent and the listed agents that it needs
}

// newOrder returns the order of tasks. Outdated tasks and refreshes hold up no other task.
func newOrder(tasks []Task, agents func(string) Agent) *order {
	o := &order{
		agents: agents,
		needs:  map[string]map[string]bool{},
		early:  map[string]uint32{},
		late:   map[string]uint32{},
	}
	for _, t := range tasks {
		if t.Outdated || t.refreshes() {
			continue
		}
		o.tasks = append(o.tasks, t)
	}
	if len(o.tasks) < 2 {
		return o
	}
	for _, t := range o.tasks {
		o.needs[t.Agent] = closure(t.Agent, agents)
		o.early[t.Agent], o.late[t.Agent] = agents(t.Agent).Tier, agents(t.Agent).Tier
	}
	for a := range o.needs {
		for b := range o.needs {
			if o.needs[a][b] {
				o.early[b] = min(o.early[b], agents(a).Tier)
				o.late[a] = max(o.late[a], agents(b).Tier)
			}
		}
	}
	return o
}

// closure returns all agents that an agent needs, directly or indirectly.
func closure(agent string, agents func(string) Agent) map[string]bool {
	out := map[string]bool{}
	todo := []string{agent}
	for len(todo) > 0 {
		next := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, d := range agents(next).Dependencies {
			if !out[d] {
				out[d] = true
				todo = append(todo, d)
			}
		}
	}
	return out
}

// reason returns which other change of the server t waits for, or "".
func (o *order) reason(t Task) string {
	if len(o.tasks) < 2 || t.refreshes() {
		return ""
	}
	for _, other := range o.tasks {
		if other.Agent == t.Agent {
			continue
		}
		reason := o.afterNeeded(t, other)
		if t.Removes {
			reason = o.removedAfter(t, other)
		}
		if reason != "" {
			return reason
		}
	}
	return ""
}

// afterNeeded orders installations and upgrades: needed agents first, then by tier.
func (o *order) afterNeeded(t, other Task) string {
	if o.needs[t.Agent][other.Agent] && o.before(other, t) {
		return fmt.Sprintf("waits for agent %s, which it needs", other.Agent)
	}
	if !other.Removes && o.early[other.Agent] < o.early[t.Agent] {
		return fmt.Sprintf("waits for agent %s of tier %d", other.Agent, o.agents(other.Agent).Tier)
	}
	return ""
}

// removedAfter orders removals: agents that need others first, then from the highest tier down.
func (o *order) removedAfter(t, other Task) string {
	if !other.Removes {
		return ""
	}
	if o.needs[other.Agent][t.Agent] && o.before(other, t) {
		return fmt.Sprintf("waits for the removal of agent %s, which needs it", other.Agent)
	}
	if o.late[other.Agent] > o.late[t.Agent] {
		return fmt.Sprintf("waits for the removal of agent %s of tier %d", other.Agent, o.agents(other.Agent).Tier)
	}
	return ""
}

// before reports whether t may wait for first: always, unless the two need each other.
func (o *order) before(first, t Task) bool {
	mutual := o.needs[first.Agent][t.Agent] && o.needs[t.Agent][first.Agent]
	return !mutual || first.UnderWay || (!t.UnderWay && first.Queued < t.Queued)
}
