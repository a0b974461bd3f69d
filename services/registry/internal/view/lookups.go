package view

import (
	"iter"
	"slices"

	"google.golang.org/protobuf/proto"

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
	tokenv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/token/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/index"
)

// Records are valid only while the view stands still, and must not be changed.

// Server returns a server by id.
func (v *View) Server(id string) (*serverv1.Server, bool) { return v.servers.Get(id) }

// ServersNamed returns every server with a name, by id; at most one is not dead.
func (v *View) ServersNamed(name string) iter.Seq[*serverv1.Server] {
	return at(v.servers, v.serverBy.Ascend(index.Group{Field: byName, Value: name}, ""))
}

// ServersPrefixed returns every server whose id starts with prefix, by id.
func (v *View) ServersPrefixed(prefix string) iter.Seq[*serverv1.Server] {
	return at(v.servers, v.serverBy.Prefixed(groupAll, prefix, ""))
}

// AllServers returns every server that is not dead, by id.
func (v *View) AllServers() iter.Seq[*serverv1.Server] {
	return at(v.servers, v.serverBy.Ascend(groupLiving, ""))
}

// ServerWithKey returns the id of a server that has a public key and is not dead, or "".
func (v *View) ServerWithKey(public string) string {
	for id := range v.serverBy.Ascend(index.Group{Field: byKey, Value: public}, "") {
		return id
	}
	return ""
}

// Token returns a pooled token by name.
func (v *View) Token(name string) (*tokenv1.Token, bool) { return v.tokens.Get(name) }

// TokenNames returns every pooled token's name.
func (v *View) TokenNames() iter.Seq[string] { return keys(v.tokens) }

// ServerNames returns the name of every server that is not dead.
func (v *View) ServerNames() iter.Seq[string] {
	return func(yield func(string) bool) {
		for s := range v.AllServers() {
			if !yield(s.Name) {
				return
			}
		}
	}
}

// Instance returns the instance of an agent on a server.
func (v *View) Instance(server, agent string) (*instancev1.Instance, bool) {
	return v.instances.Get(ledger.Key(server, agent))
}

// InstanceAt returns the instance at a key of the noun.
func (v *View) InstanceAt(key string) (*instancev1.Instance, bool) { return v.instances.Get(key) }

// InstancesOf returns the instances on a server, by agent.
func (v *View) InstancesOf(server string) iter.Seq[*instancev1.Instance] {
	return at(v.instances, v.instanceBy.Prefixed(groupAll, ledger.Key(server, ""), ""))
}

// InstancesOfAgent returns the instances of an agent, by server.
func (v *View) InstancesOfAgent(agent string) iter.Seq[*instancev1.Instance] {
	return at(v.instances, v.instanceBy.Ascend(index.Group{Field: byAgent, Value: agent}, ""))
}

// ChangedBy returns the instances that an intent was the last to change, by server and agent.
func (v *View) ChangedBy(intent string) iter.Seq[*instancev1.Instance] {
	return at(v.instances, v.instanceBy.Ascend(index.Group{Field: byIntent, Value: intent}, ""))
}

// RemovedBy returns the kept part of the instances that an intent was the last to remove, by server and
// agent. Nothing is kept of an instance that was installed again.
func (v *View) RemovedBy(intent string) iter.Seq[*instancev1.Instance] {
	return at(v.removed, v.removedBy.Ascend(index.Group{Field: byIntent, Value: intent}, ""))
}

// ServersWithDuties returns the id of every server with duties; see package duty.
func (v *View) ServersWithDuties() iter.Seq[string] { return v.duties.Ascend(groupAll, "") }

// Agent returns an agent by name.
func (v *View) Agent(name string) (*agentv1.Agent, bool) { return v.agents.Get(name) }

// AgentNames returns every agent's name.
func (v *View) AgentNames() iter.Seq[string] { return keys(v.agents) }

// Application returns an application by name.
func (v *View) Application(name string) (*applicationv1.Application, bool) {
	return v.applications.Get(name)
}

// ApplicationNames returns every application's name.
func (v *View) ApplicationNames() iter.Seq[string] { return keys(v.applications) }

// Environment returns an environment by name.
func (v *View) Environment(name string) (*environmentv1.Environment, bool) {
	return v.environments.Get(name)
}

// EnvironmentExists reports whether an environment exists.
func (v *View) EnvironmentExists(name string) bool {
	_, ok := v.environments.Get(name)
	return ok
}

// EnvironmentNames returns every environment's name.
func (v *View) EnvironmentNames() iter.Seq[string] { return keys(v.environments) }

// Image returns an image by id.
func (v *View) Image(id string) (*imagev1.Image, bool) { return v.images.Get(id) }

// Channel returns a channel by name.
func (v *View) Channel(name string) (*channelv1.Channel, bool) { return v.channels.Get(name) }

// Channels returns every channel, by name.
func (v *View) Channels() iter.Seq[*channelv1.Channel] {
	return at(v.channels, slices.Values(slices.Sorted(keys(v.channels))))
}

// Intent returns a recent intent by id.
func (v *View) Intent(id string) (*intentv1.Record, bool) { return v.intents.Get(id) }

// Sequence returns the sequence of the last fact on a key of one of the registry's own nouns.
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
	case ledger.External:
		return v.externals.Sequence(key)
	case ledger.Intent:
		return v.intents.Sequence(key)
	case ledger.Token:
		return v.tokens.Sequence(key)
	case ledger.LabelRule:
		return v.labelRules.Sequence(key)
	case ledger.Lobby:
		return v.rejections.Sequence(key)
	case ledger.Hold:
		return v.holds.Sequence(key)
	case ledger.Block:
		return v.blocks.Sequence(key)
	case ledger.Rollout:
		return v.rollouts.Sequence(key)
	}
	return 0
}

// Counts of the records that use another one, which must then not be deleted.

// InstancesOn returns how many instances an agent has.
func (v *View) InstancesOn(agent string) int {
	return v.instanceBy.Count(index.Group{Field: byAgent, Value: agent})
}

// DefaultsFor returns how many environments have a default for an agent.
func (v *View) DefaultsFor(agent string) int {
	n := 0
	for _, e := range v.environments.All() {
		if _, ok := e.Defaults[agent]; ok {
			n++
		}
	}
	return n
}

// AgentsIn returns how many agents an application has.
func (v *View) AgentsIn(application string) int {
	return v.agentBy.Count(index.Group{Field: byApplication, Value: application})
}

// ServersIn returns how many servers that are not dead an environment has.
func (v *View) ServersIn(environment string) int {
	n := 0
	for s := range at(v.servers, v.serverBy.Ascend(index.Group{Field: byEnvironment, Value: environment}, "")) {
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

// at returns the records at keys.
func at[T proto.Message](t *fold.Table[T], keys iter.Seq[string]) iter.Seq[T] {
	return func(yield func(T) bool) {
		for key := range keys {
			if r, ok := t.Get(key); ok && !yield(r) {
				return
			}
		}
	}
}
