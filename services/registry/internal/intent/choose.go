package intent

import (
	"fmt"
	"slices"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/services/registry/internal/image"
)

// chosen is the image for a server.
type chosen struct {
	manifest *imagev1.Manifest
	ref      *imagev1.Ref
}

// chooser returns a function that chooses the image for a server. Servers of one platform whose
// environments use one channel share a choice, so that a large fleet needs few. The images that a
// plan chose stay chosen.
func (o *outcome) chooser(
	agent *agentv1.Agent, choice *intentv1.ImageChoice,
) func(*serverv1.Server) (chosen, *apiv1.Refusal) {
	type kind struct{ channel, os, arch string }
	type result struct {
		chosen  chosen
		refusal *apiv1.Refusal
	}
	planned, made := map[kind]string{}, map[kind]result{}
	for _, c := range o.ask.Intent.GetGuard().GetChosen() {
		planned[kind{c.GetChannel(), c.GetPlatform().GetOs(), c.GetPlatform().GetArch()}] = c.GetImage().GetId()
	}
	return func(s *serverv1.Server) (chosen, *apiv1.Refusal) {
		platform := s.GetSysinfo().GetPlatform()
		e, _ := o.reader.Environment(s.Environment)
		k := kind{e.GetChannel(), platform.GetOs(), platform.GetArch()}
		if r, ok := made[k]; ok {
			return r.chosen, r.refusal
		}
		w := image.Want{Agent: agent, Choice: choice, Channel: k.channel, Platform: platform}
		if id := planned[k]; id != "" {
			w.Choice = &intentv1.ImageChoice{By: &intentv1.ImageChoice_ImageId{ImageId: id}}
		}
		found, refusal := image.Choose(o.reader, w)
		r := result{refusal: refusal}
		if refusal == nil {
			r.chosen = chosen{found.Manifest, image.Ref(found.Manifest)}
			c := &intentv1.Chosen{Platform: platform, Channel: k.channel, Image: r.chosen.ref}
			if image.Named(choice) {
				c.OutsideChannel = image.Outside(o.reader, k.channel, found)
			}
			o.chosen = append(o.chosen, c)
		}
		made[k] = r
		return r.chosen, r.refusal
	}
}

// fits returns why an image cannot run on a server, or nil.
func (q *question) fits(m *imagev1.Manifest, s *serverv1.Server) *apiv1.Refusal {
	others := slices.Collect(q.reader.InstancesOf(s.Id))
	if why := image.Fits(q.reader, m, s, others); why != nil || q.ask.Walk {
		return why
	}
	return image.Pairs(q.reader, m, s, others)
}

// needs refuses a server that lacks a dependency of the agent.
func (q *question) needs(agent *agentv1.Agent, s *serverv1.Server) *apiv1.Refusal {
	for _, d := range agent.Dependencies {
		if i, _ := q.reader.Instance(s.Id, d); i.GetWanted() == nil {
			return &apiv1.Refusal{
				Code: code.MissingDependency,
				Message: fmt.Sprintf("agent %q needs agent %q, which server %q (%s) lacks", agent.Name, d, s.Name,
					s.Id),
				Try: fmt.Sprintf("garrison install %s --on %s", d, s.Id),
			}
		}
	}
	return nil
}
