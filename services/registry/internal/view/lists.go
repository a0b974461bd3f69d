package view

import (
	"iter"
	"slices"

	"github.com/garrison-fleet/garrison/pkg/fold"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/services/registry/internal/index"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// ServerFilter says which servers are meant. Everything that is set must hold.
type ServerFilter struct {
	Environment string
	Labels      map[string]string
	Life        serverv1.Life // unspecified means all but dead ones
	Presence    serverv1.Presence
	Leaked      bool // dead ones that may have something left on them
	Found       bool // ones with agents that no instance explains
	Ahead       bool // ones that are ahead of the ledger
}

func (q ServerFilter) groups() []string {
	groups := []string{groupLiving}
	if q.Life != serverv1.Life_LIFE_UNSPECIFIED {
		groups[0] = groupLife + q.Life.String()
	}
	if q.Leaked {
		groups[0] = groupLeaked
	}
	if q.Found {
		groups = append(groups, groupFound)
	}
	if q.Ahead {
		groups = append(groups, groupAhead)
	}
	if q.Environment != "" {
		groups = append(groups, groupEnvironment+q.Environment)
	}
	if q.Presence != serverv1.Presence_PRESENCE_UNSPECIFIED {
		groups = append(groups, groupPresence+q.Presence.String())
	}
	for k, v := range q.Labels {
		groups = append(groups, labelGroup(k, v))
	}
	return groups
}

// Servers gives the servers that pass the filter and come behind after, by id.
func (v *View) Servers(q ServerFilter, after string) iter.Seq2[string, *serverv1.Server] {
	return filtered(v.servers, &v.serverBy, q.groups(), after)
}

// ServersWhere gives the servers of an environment, when one is said, with all labels, by id.
func (v *View) ServersWhere(environment string, labels map[string]string) iter.Seq[*serverv1.Server] {
	return func(yield func(*serverv1.Server) bool) {
		for _, s := range v.Servers(ServerFilter{Environment: environment, Labels: labels}, "") {
			if !yield(s) {
				return
			}
		}
	}
}

// InstanceFilter says which instances are meant. Everything that is set must hold.
type InstanceFilter struct {
	Server      string // its id
	Agent       string
	ImageID     string // wanted or found
	Environment string // of the server
	State       instancev1.State
}

func (q InstanceFilter) groups() []string {
	groups := []string{groupAll}
	for _, g := range [][2]string{{groupServer, q.Server}, {groupAgent, q.Agent}, {groupImage, q.ImageID}} {
		if g[1] != "" {
			groups = append(groups, g[0]+g[1])
		}
	}
	if q.State != instancev1.State_STATE_UNSPECIFIED {
		groups = append(groups, groupState+q.State.String())
	}
	return groups
}

// Instances gives the instances that pass the filter and come behind after, by server and agent.
func (v *View) Instances(q InstanceFilter, after string) iter.Seq2[string, *instancev1.Instance] {
	rest := filtered(v.instances, &v.instanceBy, q.groups(), after)
	if q.Environment == "" {
		return rest
	}
	_, fewest := selective(&v.instanceBy, q.groups())
	if q.Server == "" && v.serverBy.Count(groupEnvironment+q.Environment) < fewest {
		return v.instancesThroughServers(q, after)
	}
	return func(yield func(string, *instancev1.Instance) bool) {
		for key, i := range rest {
			if s, ok := v.servers.Get(i.ServerId); ok && s.Environment == q.Environment && !yield(key, i) {
				return
			}
		}
	}
}

// instancesThroughServers goes from each server of the environment to its instances: the
// order is the same, because instances are sorted by server first.
func (v *View) instancesThroughServers(q InstanceFilter, after string) iter.Seq2[string, *instancev1.Instance] {
	groups := q.groups()
	return func(yield func(string, *instancev1.Instance) bool) {
		for id := range v.serverBy.Ascend(groupEnvironment+q.Environment, "") {
			if after != "" && id < serverOf(after) {
				continue
			}
			for key, i := range filtered(v.instances, &v.instanceBy, append(slices.Clone(groups), groupServer+id), after) {
				if !yield(key, i) {
					return
				}
			}
		}
	}
}

// Agents gives the agents behind after, by name.
func (v *View) Agents(after string) iter.Seq2[string, *agentv1.Agent] {
	return filtered(v.agents, &v.agentBy, []string{groupAll}, after)
}

// Applications gives the applications behind after, by name.
func (v *View) Applications(after string) iter.Seq2[string, *applicationv1.Application] {
	return sorted(v.applications, after)
}

// Environments gives the environments behind after, by name.
func (v *View) Environments(after string) iter.Seq2[string, *environmentv1.Environment] {
	return sorted(v.environments, after)
}

// selective gives the group with the fewest members.
func selective(by *index.Set, groups []string) (group string, members int) {
	group, members = groups[0], by.Count(groups[0])
	for _, g := range groups[1:] {
		if n := by.Count(g); n < members {
			group, members = g, n
		}
	}
	return group, members
}

// filtered gives the records that are in all groups, in order, by reading the smallest
// group and asking the others.
func filtered[T proto.Message](t *fold.Table[T], by *index.Set, groups []string, after string) iter.Seq2[string, T] {
	smallest, _ := selective(by, groups)
	return func(yield func(string, T) bool) {
		for key := range by.Ascend(smallest, after) {
			if !inAll(by, groups, smallest, key) {
				continue
			}
			if r, ok := t.Get(key); ok && !yield(key, r) {
				return
			}
		}
	}
}

func inAll(by *index.Set, groups []string, but, key string) bool {
	for _, g := range groups {
		if g != but && !by.Has(g, key) {
			return false
		}
	}
	return true
}

// sorted gives the records of a small table in order: applications and environments are
// named by people, so there are few.
func sorted[T proto.Message](t *fold.Table[T], after string) iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		for _, key := range slices.Sorted(keys(t)) {
			if r, ok := t.Get(key); key > after && ok && !yield(key, r) {
				return
			}
		}
	}
}

var _ selector.Reader = (*View)(nil)
