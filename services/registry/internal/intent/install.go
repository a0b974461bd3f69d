package intent

import (
	"fmt"
	"iter"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/image"
	"github.com/garrison-fleet/garrison/services/registry/internal/instance"
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

// each calls f for every selected server, and leaves out those that are not alive.
func (o *outcome) each(
	agent string, on *intentv1.Selector, f func(*serverv1.Server, *instancev1.Instance),
) *apiv1.Refusal {
	found, refusal := selector.Resolve(o.reader, on)
	if refusal != nil {
		return refusal
	}
	for _, l := range found.Left {
		have, _ := o.reader.Instance(l.Server.Id, agent)
		o.leaveOut(l.Server, agent, have, l.Reason)
	}
	for _, s := range found.Servers {
		have, _ := o.reader.Instance(s.Id, agent)
		if o.mine(have) {
			o.made(s, have)
			continue
		}
		f(s, have)
	}
	return nil
}

// install wants the agent on every selected server that does not have it.
func (o *outcome) install(q *intentv1.Install) *apiv1.Refusal {
	agent, refusal := o.agent(q.GetAgent())
	if refusal != nil {
		return refusal
	}
	choose, merge := o.chooser(agent, q.Image), o.merger(agent)
	other := alreadyInstalled(agent.Name)
	return o.each(agent.Name, q.GetOn(), func(s *serverv1.Server, have *instancev1.Instance) {
		chosen, why := choose(s)
		if why != nil {
			o.leaveOut(s, agent.Name, have, why)
			return
		}
		merged, why := merge(s, have.GetConfiguration().GetOwn())
		next := want{s, agent.Name, chosen.ref, merged}
		switch {
		case why != nil:
			o.leaveOut(s, agent.Name, have, why)
		case have.GetWanted() == nil:
			o.arrive(agent, have, next, chosen.manifest)
		case image.Same(have.Wanted, next.image):
			o.keep(have, next, image.Named(q.Image))
		default:
			o.passOver(s, agent.Name, have, other)
		}
	})
}

// arrive brings an agent to a server without it, if the server has what it needs.
func (o *outcome) arrive(agent *agentv1.Agent, have *instancev1.Instance, w want, m *imagev1.Manifest) {
	why := o.needs(agent, w.server)
	if why == nil {
		why = o.fits(m, w.server)
	}
	if why != nil {
		o.leaveOut(w.server, agent.Name, have, why)
		return
	}
	o.bring(have, w)
}

// upgrade wants another image on every selected server that has the agent, and its
// metadata as it is now.
func (o *outcome) upgrade(q *intentv1.Upgrade) *apiv1.Refusal {
	agent, refusal := o.agent(q.GetAgent())
	if refusal != nil {
		return refusal
	}
	choose, merge := o.chooser(agent, q.Image), o.merger(agent)
	lacks := lacksAgent(agent.Name)
	return o.each(agent.Name, q.GetOn(), func(s *serverv1.Server, have *instancev1.Instance) {
		if have.GetWanted() == nil {
			o.passOver(s, agent.Name, have, lacks) // it lacks the agent, or the agent is leaving
			return
		}
		chosen, why := choose(s)
		if why != nil {
			o.leaveOut(s, agent.Name, have, why)
			return
		}
		merged, why := merge(s, have.GetConfiguration().GetOwn())
		if why != nil {
			o.leaveOut(s, agent.Name, have, why)
			return
		}
		o.move(have, want{s, agent.Name, chosen.ref, merged}, chosen.manifest, image.Named(q.Image))
	})
}

// move brings an instance to a chosen image. Unless the image was named, it never goes to a
// lower version, and not to one that failed there.
func (o *outcome) move(have *instancev1.Instance, w want, m *imagev1.Manifest, named bool) {
	placed := instance.Placed(have)
	switch moves := !image.Same(placed, w.image); {
	case moves && !named && image.Older(w.image.Version, placed.GetVersion()):
		o.isAlready(w.server, w.agent, have, newerRuns(have, w, placed))
		return
	case moves && !named && image.Same(have.Failed, w.image):
		o.leaveOut(w.server, w.agent, have, failedBefore(w.agent, w.image))
		return
	case moves:
		if why := o.fits(m, w.server); why != nil {
			o.leaveOut(w.server, w.agent, have, why)
			return
		}
	}
	o.bringOrKeep(have, w, named)
}

// want is what an intent wants of an agent on a server.
type want struct {
	server        *serverv1.Server
	agent         string
	image         *imagev1.Ref
	configuration *instancev1.Configuration // nil means none
}

// bringOrKeep changes what is wanted of an instance unless it is the same.
func (o *outcome) bringOrKeep(have *instancev1.Instance, w want, named bool) {
	if image.Same(have.Wanted, w.image) && instance.SameConfiguration(have.Configuration, w.configuration) {
		o.keep(have, w, named)
		return
	}
	o.bring(have, w)
}

// keep counts a server on which the same is wanted already. When the last change failed, or
// the agent is not as it is wanted, asking again means trying again: otherwise nothing but a
// new version would, and a damaged agent could not be repaired. But an image that failed
// there is only tried again when it is named.
func (o *outcome) keep(have *instancev1.Instance, w want, named bool) {
	switch {
	case have.State != instancev1.State_STATE_FAILED && have.State != instancev1.State_STATE_DRIFTED:
		o.isAlready(w.server, w.agent, have, nil)
	case !named && image.Same(have.Failed, w.image) && !image.Same(have.Observed, w.image):
		o.leaveOut(w.server, w.agent, have, failedBefore(w.agent, w.image))
	default:
		o.bring(have, w)
	}
}
