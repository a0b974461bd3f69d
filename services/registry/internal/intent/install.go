package intent

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	"github.com/garrison-fleet/garrison/pkg/nearest"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/image"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// agent returns the agent with a name, or refuses an unknown one.
func (q *question) agent(name string) (*agentv1.Agent, *apiv1.Refusal) {
	a, ok := q.reader.Agent(name)
	if !ok {
		refusal := UnknownAgent(q.reader, name)
		if refusal.Nearest == "" {
			refusal.Try = string(fault.Hintf("garrison agent create %s", name))
		}
		return nil, refusal
	}
	if a.Kind == agentv1.Kind_KIND_EXTERNAL {
		return nil, &apiv1.Refusal{
			Code: code.UnsupportedKind,
			Message: fmt.Sprintf(
				"agent %q is of kind external: Garrison tracks it, and does not install or change it", name),
			Try: "garrison instance list " + name,
		}
	}
	return a, nil
}

// UnknownAgent refuses an unknown agent.
func UnknownAgent(r interface{ AgentNames() iter.Seq[string] }, name string) *apiv1.Refusal {
	return &apiv1.Refusal{
		Code: code.UnknownAgent, Message: fmt.Sprintf("no agent %q", name),
		Nearest: nearest.Name(name, r.AgentNames()),
		Try:     "garrison agent list",
	}
}

// each calls f for every selected server, and leaves out those that are not alive.
func (o *outcome) each(
	agent string, on *intentv1.Selector, f func(*serverv1.Server, *instancev1.Instance),
) *apiv1.Refusal {
	found, refusal := o.selected(on)
	if refusal != nil {
		return refusal
	}
	for _, l := range found.Left {
		have, _ := o.reader.Instance(l.Server.Id, agent)
		o.leaveOut(l.Server, agent, have, l.Reason)
	}
	for _, s := range found.Servers {
		have, _ := o.reader.Instance(s.Id, agent)
		if o.changedBefore(have) {
			o.addChanged(s, have)
			continue
		}
		f(s, have)
	}
	return nil
}

// selected returns the servers of a selector; of an intent that follows from a default those on which it is due.
func (q *question) selected(on *intentv1.Selector) (selector.Found, *apiv1.Refusal) {
	if q.ask.Due == nil {
		return selector.Resolve(q.reader, on)
	}
	var found selector.Found
	for _, id := range q.ask.Due {
		if s, ok := q.reader.Server(id); ok && s.Life == serverv1.Life_LIFE_ALIVE {
			found.Servers = append(found.Servers, s)
		}
	}
	return found, nil
}

// install wants the agent on every selected server that does not have it, and its image on the others if the intent
// says so.
func install(o *outcome, q *intentv1.Install) *apiv1.Refusal {
	agent, refusal := o.agent(q.GetAgent())
	if refusal == nil {
		refusal = cmp.Or(checkOrigins(q.Origins), checkOwn(q.Own))
	}
	if refusal != nil {
		return refusal
	}
	choose, merge := o.chooser(agent, q.Image), merger(o, agent)
	upgrade, other := upgrader(o, agent, &intentv1.Upgrade{Image: q.Image}), alreadyInstalled(q)
	return o.each(agent.Name, q.GetOn(), func(s *serverv1.Server, have *instancev1.Instance) {
		if q.AlsoUpgrade && have.GetWanted() != nil {
			upgrade(s, have)
			return
		}
		chosen, why := choose(s)
		if why != nil {
			o.leaveOut(s, agent.Name, have, why)
			return
		}
		own := have.GetConfiguration().GetOwn()
		if have.GetWanted() == nil {
			own = metadata.Change{Set: q.Own[s.Id].GetValues()}.Apply(own)
		}
		merged, why := merge(s, own)
		next := want{
			server: s, agent: agent.Name, image: chosen.ref, configuration: merged, origin: q.Origins[s.Id],
		}
		switch {
		case why != nil:
			o.leaveOut(s, agent.Name, have, why)
		case have.GetWanted() == nil:
			arrive(o, agent, have, next, chosen.manifest)
		case image.Same(have.Wanted, next.image):
			keep(o, have, next, o.named(q.Image))
		case instance.Placed(have) == nil && have.State == instancev1.State_STATE_FAILED: // it never ran there
			arrive(o, agent, have, next, chosen.manifest)
		default:
			o.passOver(s, agent.Name, have, other)
		}
	})
}

// maxOrigin bounds what an instance is called in another system, in bytes.
const maxOrigin = 255

// checkOrigins refuses what is no line of text.
func checkOrigins(all map[string]string) *apiv1.Refusal {
	for _, server := range slices.Sorted(maps.Keys(all)) {
		o := all[server]
		hidden := strings.ContainsFunc(o, func(r rune) bool { return !unicode.IsPrint(r) })
		if hidden || len(o) > maxOrigin {
			return &apiv1.Refusal{
				Code: code.Invalid,
				Message: fmt.Sprintf("the origin %.40q of the instance on server %s is not printable, or has more "+
					"than %d bytes", o, server, maxOrigin),
				Try: "an origin such as triton:UUID",
			}
		}
	}
	return nil
}

// checkOwn refuses own values that no instance can have.
func checkOwn(all map[string]*intentv1.OwnValues) *apiv1.Refusal {
	for _, server := range slices.Sorted(maps.Keys(all)) {
		if err := (metadata.Change{Set: all[server].GetValues()}).Check(); err != nil {
			return fault.RefusalOf(err)
		}
	}
	return nil
}

// arrive brings an agent to a server without it, if the server has what it needs.
func arrive(o *outcome, agent *agentv1.Agent, have *instancev1.Instance, w want, m *imagev1.Manifest) {
	why := o.needs(agent, w.server)
	if why == nil && o.ask.ofDefault() {
		why = unmanaged(agent.Name, w.server)
	}
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
func upgrade(o *outcome, q *intentv1.Upgrade) *apiv1.Refusal {
	agent, refusal := o.agent(q.GetAgent())
	if refusal != nil {
		return refusal
	}
	if q.GetAgain() && agent.Kind == agentv1.Kind_KIND_SELF {
		return &apiv1.Refusal{
			Code: code.UnsupportedKind, Message: fmt.Sprintf("agent %q is the executor, which no intent starts again",
				agent.Name),
			Try: "restart its service on the server",
		}
	}
	upgrade, lacks := upgrader(o, agent, q), lacksAgent(agent.Name)
	if restarts(o.ask.Intent) {
		upgrade = restarter(o)
	}
	return o.each(agent.Name, q.GetOn(), func(s *serverv1.Server, have *instancev1.Instance) {
		if have.GetWanted() == nil {
			o.passOver(s, agent.Name, have, lacks) // it lacks the agent, or the agent is leaving
			return
		}
		upgrade(s, have)
	})
}

// upgrader returns a function that brings a server's instance to the chosen image, with its metadata as it is now.
func upgrader(
	o *outcome, agent *agentv1.Agent, q *intentv1.Upgrade,
) func(*serverv1.Server, *instancev1.Instance) {
	choice := q.GetImage()
	choose, merge, path := o.chooser(agent, choice), merger(o, agent), o.pather(agent.Name, choice)
	return func(s *serverv1.Server, have *instancev1.Instance) {
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
		next := want{server: s, agent: agent.Name, image: chosen.ref, configuration: merged, again: q.GetAgain()}
		if why := o.held(s, have); why != nil && !image.Same(have.Wanted, next.image) {
			o.leaveOut(s, agent.Name, have, why)
			return
		}
		if placed := instance.Placed(have); placed != nil && !image.Same(placed, next.image) {
			next.hops, why = path(s, placed, chosen.manifest)
			if why != nil && movesTo(placed, next, o.named(choice)) {
				o.leaveOut(s, agent.Name, have, why)
				return
			}
		}
		move(o, have, next, chosen.manifest, o.named(choice))
	}
}

// move brings an instance to a chosen image. Unless the image was named, it never goes to a
// lower version, and not to one that failed there.
func move(o *outcome, have *instancev1.Instance, w want, m *imagev1.Manifest, named bool) {
	placed := instance.Placed(have)
	switch moves := !image.Same(placed, w.image); {
	case moves && !named && image.Older(w.image.Version, placed.GetVersion()):
		o.isAlready(w.server, w.agent, have, newerRuns(have, w, placed))
		return
	case moves && !named && image.Same(have.Failed, w.image):
		o.leaveOut(w.server, w.agent, have, failedBefore(w.agent, w.image))
		return
	case moves:
		if why := o.fitWay(w.server, w.hops, m); why != nil {
			o.leaveOut(w.server, w.agent, have, why)
			return
		}
	}
	bringOrKeep(o, have, w, named)
}

// named reports whether a person named the image, and may mean one that is lower or that failed before.
func (q *question) named(choice *intentv1.ImageChoice) bool {
	return image.Named(choice) && !q.ask.Pinned
}

// failedThere refuses to bring to a server what failed there, unless an operator names it and says why; nil otherwise.
// An undo goes back to what ran there before, and an adoption takes what runs.
func (q *question) failedThere(have *instancev1.Instance, w want) *apiv1.Refusal {
	if q.ask.Back || q.ask.Intent.GetUndo() != nil || w.candidate != "" || w.again || q.insists() {
		return nil
	}
	if instance.FailedThere(have, w.image, w.configuration.GetDigest()) {
		return failedBefore(w.agent, w.image)
	}
	return nil
}

// insists reports whether an operator names what to bring, and says why.
func (q *question) insists() bool {
	if q.ask.Intent.GetNote() == "" {
		return false
	}
	switch what := q.ask.Intent.GetAsk().(type) {
	case *intentv1.Intent_Install:
		return q.named(what.Install.GetImage())
	case *intentv1.Intent_Upgrade:
		return q.named(what.Upgrade.GetImage())
	case *intentv1.Intent_Configure:
		return !what.Configure.GetRepair()
	}
	return false
}

// movesTo reports whether an upgrade would bring an image: without its name, none that is older.
func movesTo(placed *imagev1.Ref, w want, named bool) bool {
	return named || !image.Older(w.image.Version, placed.GetVersion())
}

// want is what an intent wants of an agent on a server.
type want struct {
	server        *serverv1.Server
	agent         string
	image         *imagev1.Ref
	configuration *instancev1.Configuration // nil means none
	origin        string                    // what it is called in another system
	candidate     string                    // the process that becomes the agent; empty where it is installed
	hops          []*imagev1.Manifest       // the images through which a rollout goes there
	again         bool                      // it is started again, also where it is wanted already
}

// bringOrKeep changes what is wanted of an instance unless it is the same.
func bringOrKeep(o *outcome, have *instancev1.Instance, w want, named bool) {
	if image.Same(have.Wanted, w.image) && instance.SameConfiguration(have.Configuration, w.configuration) {
		keep(o, have, w, named)
		return
	}
	o.bring(have, w)
}

// keep counts a server on which the same is wanted already. When the last change failed, or
// the agent is not as it is wanted, asking again means trying again: otherwise nothing but a
// new version would, and a damaged agent could not be repaired. But an image that failed
// there is only tried again when it is named.
func keep(o *outcome, have *instancev1.Instance, w want, named bool) {
	switch {
	case !w.again && have.State != instancev1.State_STATE_FAILED && have.State != instancev1.State_STATE_DRIFTED:
		o.isAlready(w.server, w.agent, have, nil)
	case !named && image.Same(have.Failed, w.image) && !image.Same(have.Observed, w.image):
		o.leaveOut(w.server, w.agent, have, failedBefore(w.agent, w.image))
	default:
		o.bring(have, w)
	}
}
