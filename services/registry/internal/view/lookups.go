package view

import (
	"iter"
	"slices"

	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"google.golang.org/protobuf/proto"
)

// What is here is only valid while the view stands still, and must not be changed.

// Server gives a server by id.
func (v *View) Server(id string) (*serverv1.Server, bool) { return v.servers.Get(id) }

// ServersNamed gives every server with a name, by id; at most one is not dead.
func (v *View) ServersNamed(name string) iter.Seq[*serverv1.Server] {
	return look(v.servers, v.serverBy.Ascend(groupName+name, ""))
}

// ServersPrefixed gives every server whose id starts with prefix, by id.
func (v *View) ServersPrefixed(prefix string) iter.Seq[*serverv1.Server] {
	return look(v.servers, v.serverBy.Prefixed(groupAll, prefix))
}

// AllServers gives every server that is not dead, by id.
func (v *View) AllServers() iter.Seq[*serverv1.Server] {
	return look(v.servers, v.serverBy.Ascend(groupLiving, ""))
}

// ServerNames gives the name of every server that is not dead.
func (v *View) ServerNames() iter.Seq[string] {
	return func(yield func(string) bool) {
		for s := range v.AllServers() {
			if !yield(s.Name) {
				return
			}
		}
	}
}

// Instance gives the instance of an agent on a server.
func (v *View) Instance(server, agent string) (*instancev1.Instance, bool) {
	return v.instances.Get(ledger.Key(server, agent))
}

// InstancesOf gives the instances on a server, by agent.
func (v *View) InstancesOf(server string) iter.Seq[*instancev1.Instance] {
	return look(v.instances, v.instanceBy.Ascend(groupServer+server, ""))
}

// InstancesOfAgent gives the instances of an agent, by server.
func (v *View) InstancesOfAgent(agent string) iter.Seq[*instancev1.Instance] {
	return look(v.instances, v.instanceBy.Ascend(groupAgent+agent, ""))
}

// ChangedBy returns the instances that an intent was the last to change, by server and agent.
func (v *View) ChangedBy(intent string) iter.Seq[*instancev1.Instance] {
	return look(v.instances, v.instanceBy.Ascend(groupIntent+intent, ""))
}

// RemovedBy returns what is kept of the instances that an intent was the last to remove, by
// server and agent. Of one that was installed again nothing is kept.
func (v *View) RemovedBy(intent string) iter.Seq[*instancev1.Instance] {
	return look(v.removed, v.removedBy.Ascend(groupIntent+intent, ""))
}

// ServersWithDuties gives the id of every server about which something must be recorded.
func (v *View) ServersWithDuties() iter.Seq[string] { return v.duties.Ascend(groupAll, "") }

// Agent gives an agent by name.
func (v *View) Agent(name string) (*agentv1.Agent, bool) { return v.agents.Get(name) }

// AgentNames gives every agent's name.
func (v *View) AgentNames() iter.Seq[string] { return keys(v.agents) }

// Application gives an application by name.
func (v *View) Application(name string) (*applicationv1.Application, bool) {
	return v.applications.Get(name)
}

// ApplicationNames gives every application's name.
func (v *View) ApplicationNames() iter.Seq[string] { return keys(v.applications) }

// Environment gives an environment by name.
func (v *View) Environment(name string) (*environmentv1.Environment, bool) {
	return v.environments.Get(name)
}

// EnvironmentExists says whether there is an environment.
func (v *View) EnvironmentExists(name string) bool {
	_, ok := v.environments.Get(name)
	return ok
}

// EnvironmentNames gives every environment's name.
func (v *View) EnvironmentNames() iter.Seq[string] { return keys(v.environments) }

// Image gives an image by id.
func (v *View) Image(id string) (*imagev1.Image, bool) { return v.images.Get(id) }

// Channel gives a channel by name.
func (v *View) Channel(name string) (*channelv1.Channel, bool) { return v.channels.Get(name) }

// Channels gives every channel, by name.
func (v *View) Channels() iter.Seq[*channelv1.Channel] {
	return look(v.channels, slices.Values(slices.Sorted(keys(v.channels))))
}

// Intent gives a recent intent by id.
func (v *View) Intent(id string) (*intentv1.Record, bool) { return v.intents.Get(id) }

// Sequence gives the sequence of the last fact on a key of one of the registry's own nouns.
func (v *View) Sequence(noun ledger.Noun, key string) uint64 {
	switch noun {
	case ledger.Application:
		return v.applications.Sequence(key)
	case ledger.Environment:
		return v.environments.Sequence(key)
	case ledger.Agent:
		return v.agents.Sequence(key)
	case ledger.Server:
		return v.servers.Sequence(key)
	case ledger.Instance:
		return v.instances.Sequence(key)
	case ledger.Intent:
		return v.intents.Sequence(key)
	}
	return 0
}

// Counts of what hangs on something, so that it must not be deleted.

// InstancesOn gives how many instances an agent has.
func (v *View) InstancesOn(agent string) int { return v.instanceBy.Count(groupAgent + agent) }

// AgentsIn gives how many agents an application has.
func (v *View) AgentsIn(application string) int {
	return v.agentBy.Count(groupApplication + application)
}

// ServersIn gives how many servers that are not dead an environment has.
func (v *View) ServersIn(environment string) int {
	n := 0
	for s := range look(v.servers, v.serverBy.Ascend(groupEnvironment+environment, "")) {
		if s.Life != serverv1.Life_LIFE_DEAD {
			n++
		}
	}
	return n
}

func keys[T proto.Message](t *fold.Table[T]) iter.Seq[string] {
	return func(yield func(string) bool) {
		for key := range t.All() {
			if !yield(key) {
				return
			}
		}
	}
}

// look gives the records at keys.
func look[T proto.Message](t *fold.Table[T], at iter.Seq[string]) iter.Seq[T] {
	return func(yield func(T) bool) {
		for key := range at {
			if r, ok := t.Get(key); ok && !yield(r) {
				return
			}
		}
	}
}
