package intent

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

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
