package intent

import (
	"fmt"
	"iter"

	"github.com/garrison-fleet/garrison/pkg/ident"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/image"
	"github.com/garrison-fleet/garrison/services/registry/internal/nearest"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// agent finds the agent that is meant.
func (o *outcome) agent(name string) (*agentv1.Agent, *apiv1.Refusal) {
	if a, ok := o.reader.Agent(name); ok {
		return a, nil
	}
	return nil, UnknownAgent(o.reader, name)
}

// UnknownAgent refuses an agent that is not there.
func UnknownAgent(r interface{ AgentNames() iter.Seq[string] }, name string) *apiv1.Refusal {
	return &apiv1.Refusal{
		Code: "UNKNOWN_AGENT", Message: fmt.Sprintf("no agent %q", name),
		Nearest: nearest.Name(name, r.AgentNames()), Try: "garrison agent list, or garrison agent create " + name,
	}
}

// install wants the agent on every selected server that does not have it.
func (o *outcome) install(q *intentv1.Install) *apiv1.Refusal {
	agent, refusal := o.agent(q.GetAgent())
	if refusal != nil {
		return refusal
	}
	targets, refusal := selector.Resolve(o.reader, q.GetOn())
	if refusal != nil {
		return refusal
	}
	choose, merge := o.chooser(agent, q.Image), o.merger(agent)
	other := 0
	for _, s := range targets {
		chosen, refusal := choose(s)
		if refusal != nil {
			return refusal
		}
		have, _ := o.reader.Instance(s.Id, agent.Name)
		merged, refusal := merge(s, have.GetConfiguration().GetOwn())
		if refusal != nil {
			return refusal
		}
		next := want{s.Id, agent.Name, chosen, merged}
		switch {
		case have.GetWanted() == nil:
			if refusal := o.needs(agent, s); refusal != nil {
				return refusal
			}
			o.bring(have, next)
		case image.Same(have.Wanted, chosen):
			o.keep(have, next)
		default:
			other++
		}
	}
	if len(o.changed) == 0 && other > 0 {
		return alreadyInstalled(agent.Name, other)
	}
	o.passed += uint32(other)
	return nil
}

// upgrade wants another image on every selected server that has the agent, and its
// metadata as it is now.
func (o *outcome) upgrade(q *intentv1.Upgrade) *apiv1.Refusal {
	agent, refusal := o.agent(q.GetAgent())
	if refusal != nil {
		return refusal
	}
	targets, refusal := selector.Resolve(o.reader, q.GetOn())
	if refusal != nil {
		return refusal
	}
	choose, merge := o.chooser(agent, q.Image), o.merger(agent)
	for _, s := range targets {
		have, _ := o.reader.Instance(s.Id, agent.Name)
		if have.GetWanted() == nil {
			o.passed++ // it lacks the agent, or the agent is leaving
			continue
		}
		chosen, refusal := choose(s)
		if refusal != nil {
			return refusal
		}
		merged, refusal := merge(s, have.GetConfiguration().GetOwn())
		if refusal != nil {
			return refusal
		}
		o.bringOrKeep(have, want{s.Id, agent.Name, chosen, merged})
	}
	if int(o.passed) == len(targets) {
		return noInstances(agent.Name, len(targets), "garrison install "+agent.Name+" --on SELECTOR")
	}
	return nil
}

// want is what an intent wants of an agent on a server.
type want struct {
	server, agent string
	image         *imagev1.Ref
	configuration *instancev1.Configuration // nil means none
}

// bring changes what is wanted on a server.
func (o *outcome) bring(have *instancev1.Instance, w want) {
	o.want(have, w)
	o.changed = append(o.changed, w.server)
}

// bringOrKeep changes what is wanted of an instance unless it is the same.
func (o *outcome) bringOrKeep(have *instancev1.Instance, w want) {
	if image.Same(have.Wanted, w.image) && sameConfiguration(have.Configuration, w.configuration) {
		o.keep(have, w)
		return
	}
	o.bring(have, w)
}

// keep counts a server on which the same is wanted already. When the last change failed,
// asking again means trying again: otherwise nothing but a new version would.
func (o *outcome) keep(have *instancev1.Instance, w want) {
	switch {
	case o.mine(have):
		o.changed = append(o.changed, w.server) // made before the intent was cut off
	case have.State == instancev1.State_STATE_FAILED:
		o.bring(have, w)
	default:
		o.already++
	}
}

// chooser chooses the image for a server. Servers of one platform whose environments
// use one channel share a choice, so that it is made once for a large fleet.
func (o *outcome) chooser(agent *agentv1.Agent, choice *intentv1.ImageChoice) func(*serverv1.Server) (*imagev1.Ref, *apiv1.Refusal) {
	type kind struct{ channel, os, arch string }
	made := map[kind]*imagev1.Ref{}
	return func(s *serverv1.Server) (*imagev1.Ref, *apiv1.Refusal) {
		platform := s.GetSysinfo().GetPlatform()
		e, _ := o.reader.Environment(s.Environment)
		k := kind{e.GetChannel(), platform.GetOs(), platform.GetArch()}
		if ref, ok := made[k]; ok {
			return ref, nil
		}
		found, refusal := image.Choose(o.reader, image.Want{Agent: agent, Choice: choice, Channel: k.channel, Platform: platform})
		if refusal != nil {
			refusal.Message += fmt.Sprintf(" (for server %q, %s)", s.Name, ident.Short(s.Id))
			return nil, refusal
		}
		made[k] = image.Ref(found.Manifest)
		return made[k], nil
	}
}

// needs refuses a server that lacks what the agent depends on.
func (o *outcome) needs(agent *agentv1.Agent, s *serverv1.Server) *apiv1.Refusal {
	for _, d := range agent.Dependencies {
		if i, _ := o.reader.Instance(s.Id, d); i.GetWanted() == nil {
			return &apiv1.Refusal{
				Code:    "MISSING_DEPENDENCY",
				Message: fmt.Sprintf("agent %q needs agent %q, which server %q (%s) lacks", agent.Name, d, s.Name, ident.Short(s.Id)),
				Try:     fmt.Sprintf("garrison install %s --on %s", d, s.Id),
			}
		}
	}
	return nil
}

func alreadyInstalled(agent string, n int) *apiv1.Refusal {
	return &apiv1.Refusal{
		Code: "ALREADY_INSTALLED", Message: fmt.Sprintf("agent %q is on all selected servers; %d want another image", agent, n),
		Try: "garrison up " + agent + " --on SELECTOR",
	}
}

func noInstances(agent string, searched int, try string) *apiv1.Refusal {
	return &apiv1.Refusal{
		Code: "NO_INSTANCES", Message: fmt.Sprintf("no selected server has agent %q (%d servers searched)", agent, searched), Try: try,
	}
}
