package intent

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// namedOffline is how many servers that are offline a plan names.
const namedOffline = 10

// Planned is what an intent would do now.
type Planned struct {
	*intentv1.Plan
	targets []target
}

// Plan returns what an intent would do if it were decided now. It decides as Decide does and drafts
// nothing.
func Plan(r Reader, a Ask) Planned {
	a.Verb = verbOf(a.Intent)
	o, refusal := assess(r, a)
	p := &intentv1.Plan{
		Intent: proto.CloneOf(a.Intent), Agent: o.agentName(),
		Changed: uint32(o.changed()), Already: uint32(o.counts[already]),
		PassedOver: uint32(o.counts[passedOver]), LeftOut: uint32(o.left()), TargetsSha256: o.sum(),
		Chosen: o.chosen, Reasons: o.reasons(), Refusal: refusal,
	}
	for _, x := range o.targets {
		if x.effect != change || x.server.GetPresence() != serverv1.Presence_PRESENCE_OFFLINE {
			continue
		}
		if p.Offline++; p.Offline <= namedOffline {
			p.OfflineServers = append(p.OfflineServers, x.server.Name)
		}
	}
	if p.Intent != nil {
		p.Intent.DryRun = false
		p.Intent.Guard = &intentv1.Guard{TargetsSha256: p.TargetsSha256, Changed: p.Changed, Chosen: p.Chosen}
	}
	return Planned{p, o.targets}
}

// agentName returns the agent that a decision is about. For an undo it is the agent of the intent
// that is undone.
func (o *outcome) agentName() string {
	if name := agentOf(o.ask.Intent); name != "" || len(o.targets) == 0 {
		return name
	}
	return o.targets[0].agent
}

// Targets calls f with each target after a server's id, by server, until f returns false. With
// effects, it calls f only for targets with one of them.
func (p Planned) Targets(after string, effects []intentv1.Effect, f func(*intentv1.Target) bool) {
	for _, x := range p.targets {
		if x.server.GetId() <= after || !wanted(x.effect, effects) {
			continue
		}
		if !f(x.message()) {
			return
		}
	}
}

func wanted(e intentv1.Effect, effects []intentv1.Effect) bool {
	return len(effects) == 0 || slices.Contains(effects, e)
}

// EveryAgent returns the same upgrade for each agent that the selected servers have, by name, except
// the excluded ones.
func EveryAgent(r Reader, a *intentv1.Intent, exclude []string) ([]*intentv1.Intent, *apiv1.Refusal) {
	names := map[string]bool{}
	for _, name := range exclude {
		if _, ok := r.Agent(name); !ok {
			return nil, UnknownAgent(r, name)
		}
	}
	found, refusal := selector.Resolve(r, a.GetUpgrade().GetOn())
	if refusal != nil {
		return nil, refusal
	}
	for _, s := range found.Servers {
		for i := range r.InstancesOf(s.Id) {
			if i.Wanted != nil && !slices.Contains(exclude, i.Agent) {
				names[i.Agent] = true
			}
		}
	}
	var out []*intentv1.Intent
	for _, name := range slices.Sorted(maps.Keys(names)) {
		one := proto.CloneOf(a)
		one.GetUpgrade().Agent = name
		out = append(out, one)
	}
	return out, nil
}

// Change is what an intent does to one server that it changes.
type Change struct {
	Server        *serverv1.Server
	Agent         string
	From, To      *imagev1.Ref
	Configuration *instancev1.Configuration // as it will be; nil when the agent goes
	Hops          []*imagev1.Manifest       // the images between From and To, in order
}

// Changes calls f with each change, by server.
func (p Planned) Changes(f func(Change)) {
	for _, x := range p.targets {
		if x.effect == change {
			f(Change{x.server, x.agent, x.from, x.to, x.configuration, x.hops})
		}
	}
}

// Empty reports whether the plan is about no server at all: its refusal then concerns the intent, not the servers.
func (p Planned) Empty() bool { return len(p.targets) == 0 }

// Malformed returns why an intent is refused before the fleet is looked at, or nil.
func Malformed(a Ask) *apiv1.Refusal {
	refusal := malformed(a)
	if refusal != nil {
		refusal.Component = ledger.Registry
	}
	return refusal
}

// Answer drafts the answer to an intent whose changes are all recorded elsewhere.
func Answer(a Ask, body proto.Message) ledger.Draft {
	return (&outcome{question: question{ask: a}}).answer(body)
}

// Fact returns a fact that an intent leads to, with a computed id; turn distinguishes two of one kind on one key.
func Fact(a Ask, noun ledger.Noun, key string, body proto.Message, turn uint64) ledger.Fact {
	return (&outcome{question: question{ask: a}}).fact(noun, key, body, turn)
}

// Verb returns the verb that the subject of an intent must hold; empty for an intent without one.
func Verb(i *intentv1.Intent) string { return verbOf(i) }

// AgentOf returns the agent that an intent names, or "".
func AgentOf(i *intentv1.Intent) string { return agentOf(i) }
