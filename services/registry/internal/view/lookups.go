package view

import (
	"iter"
	"slices"
	"strings"

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

// fleet finds servers and their instances.
type fleet struct{ *tables }

// Records are valid only while the view stands still, and must not be changed.

// Server returns a server by id.
func (v *fleet) Server(id string) (*serverv1.Server, bool) { return v.servers.Get(id) }

// ServersNamed returns every server with a name, by id; at most one is not dead. Names that differ in case only are one
// name, as those of hosts are.
func (v *fleet) ServersNamed(name string) iter.Seq[*serverv1.Server] {
	return at(v.servers, v.serverBy.Ascend(index.Group{Field: byName, Value: strings.ToLower(name)}, ""))
}

// ServersPrefixed returns every server whose id starts with prefix, by id.
func (v *fleet) ServersPrefixed(prefix string) iter.Seq[*serverv1.Server] {
	return at(v.servers, v.serverBy.Prefixed(groupAll, prefix, ""))
}

// AllServers returns every server that is not dead, by id.
func (v *fleet) AllServers() iter.Seq[*serverv1.Server] {
	return at(v.servers, v.serverBy.Ascend(groupLiving, ""))
}

// SomeServers returns the servers that are not dead among most numbers from a number on, and the number that follows,
// which is negative behind the last one. The order has no meaning, and it costs a fraction of AllServers.
func (v *fleet) SomeServers(from, most int) (some iter.Seq[*serverv1.Server], next int) {
	end := min(from+most, v.serverBy.Span())
	next = end
	if end == v.serverBy.Span() {
		next = -1
	}
	return func(yield func(*serverv1.Server) bool) {
		for n := from; n < end; n++ {
			s, ok := v.servers.Get(v.serverBy.Member(uint32(n)))
			if ok && s.GetLife() != serverv1.Life_LIFE_DEAD && !yield(s) {
				return
			}
		}
	}, next
}

// ServerWithKey returns the id of a server that has a public key and is not dead, or "".
func (v *fleet) ServerWithKey(public string) string {
	for id := range v.serverBy.Ascend(index.Group{Field: byKey, Value: public}, "") {
		return id
	}
	return ""
}

// Token returns a pooled token by name.
func (v *declared) Token(name string) (*tokenv1.Token, bool) { return v.tokens.Get(name) }

// TokenNames returns every pooled token's name.
func (v *declared) TokenNames() iter.Seq[string] { return keys(v.tokens) }

// ServerNames returns the name of every server that is not dead.
func (v *fleet) ServerNames() iter.Seq[string] {
	return func(yield func(string) bool) {
		for s := range v.AllServers() {
			if !yield(s.Name) {
				return
			}
		}
	}
}

// Instance returns the instance of an agent on a server.
func (v *fleet) Instance(server, agent string) (*instancev1.Instance, bool) {
	return v.instances.Get(ledger.Key(server, agent))
}

// InstanceAt returns the instance at a key of the noun.
func (v *fleet) InstanceAt(key string) (*instancev1.Instance, bool) { return v.instances.Get(key) }

// InstancesOf returns the instances on a server, by agent.
func (v *fleet) InstancesOf(server string) iter.Seq[*instancev1.Instance] {
	return at(v.instances, v.instanceBy.Prefixed(groupAll, ledger.Key(server, ""), ""))
}

// InstancesOfAgent returns the instances of an agent, by server.
func (v *fleet) InstancesOfAgent(agent string) iter.Seq[*instancev1.Instance] {
	return at(v.instances, v.instanceBy.Ascend(index.Group{Field: byAgent, Value: agent}, ""))
}

// ChangedBy returns the instances that an intent was the last to change, by server and agent.
func (v *fleet) ChangedBy(intent string) iter.Seq[*instancev1.Instance] {
	return at(v.instances, v.instanceBy.Ascend(index.Group{Field: byIntent, Value: intent}, ""))
}

// RemovedBy returns the kept part of the instances that an intent was the last to remove, by server and
// agent. Nothing is kept of an instance that was installed again.
func (v *fleet) RemovedBy(intent string) iter.Seq[*instancev1.Instance] {
	return at(v.removed, v.removedBy.Ascend(index.Group{Field: byIntent, Value: intent}, ""))
}

// ServersWithDuties returns the id of every server with duties; see package duty.
func (v *fleet) ServersWithDuties() iter.Seq[string] { return v.duties.Ascend(groupAll, "") }

// Agent returns an agent by name.
func (v *declared) Agent(name string) (*agentv1.Agent, bool) { return v.agents.Get(name) }

// AgentNames returns every agent's name.
func (v *declared) AgentNames() iter.Seq[string] { return keys(v.agents) }

// Application returns an application by name.
func (v *declared) Application(name string) (*applicationv1.Application, bool) {
	return v.applications.Get(name)
}

// ApplicationNames returns every application's name.
func (v *declared) ApplicationNames() iter.Seq[string] { return keys(v.applications) }

// Environment returns an environment by name.
func (v *declared) Environment(name string) (*environmentv1.Environment, bool) {
	return v.environments.Get(name)
}

// EnvironmentExists reports whether an environment exists.
func (v *declared) EnvironmentExists(name string) bool {
	_, ok := v.environments.Get(name)
	return ok
}

// EnvironmentNames returns every environment's name.
func (v *declared) EnvironmentNames() iter.Seq[string] { return keys(v.environments) }

// Image returns an image by id.
func (v *origins) Image(id string) (*imagev1.Image, bool) { return v.images.Get(id) }

// Channel returns a channel by name.
func (v *origins) Channel(name string) (*channelv1.Channel, bool) { return v.channels.Get(name) }

// Channels returns every channel, by name.
func (v *origins) Channels() iter.Seq[*channelv1.Channel] {
	return at(v.channels, slices.Values(slices.Sorted(keys(v.channels))))
}

// Intent returns a recent intent by id.
func (v *orders) Intent(id string) (*intentv1.Record, bool) { return v.intents.Get(id) }

// Sequence returns the sequence of the last fact on a key of one of the registry's own nouns.
func (v *tables) Sequence(noun ledger.Noun, key string) uint64 {
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
func (v *fleet) InstancesOn(agent string) int {
	n := v.instanceBy.Count(index.Group{Field: byAgent, Value: agent})
	if agent == Executor {
		n -= v.instanceBy.Count(groupByHand)
	}
	return n
}

// DefaultsFor returns how many environments have a default for an agent.
func (v *declared) DefaultsFor(agent string) int {
	n := 0
	for _, e := range v.environments.All() {
		if _, ok := e.Defaults[agent]; ok {
			n++
		}
	}
	return n
}

// AgentsIn returns how many agents an application has.
func (v *declared) AgentsIn(application string) int {
	return v.agentBy.Count(index.Group{Field: byApplication, Value: application})
}

// ServersIn returns how many servers that are not dead an environment has.
func (v *fleet) ServersIn(environment string) int {
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
