package intent

import (
	"slices"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/image"
)

// way is a path from one image to another, or why no path exists.
type way struct {
	hops    []*imagev1.Manifest
	refusal *apiv1.Refusal
}

// pather returns a function that returns the hops between the present image of an agent and another one. Servers of one
// kind share a path. An intent of its own brings one image, so where there are hops it is refused; a rollout walks.
func (q *question) pather(
	agent string, choice *intentv1.ImageChoice,
) func(*serverv1.Server, *imagev1.Ref, *imagev1.Manifest) ([]*imagev1.Manifest, *apiv1.Refusal) {
	type kind struct{ channel, present, version, to string }
	made := map[kind]way{}
	return func(s *serverv1.Server, present *imagev1.Ref, to *imagev1.Manifest) ([]*imagev1.Manifest, *apiv1.Refusal) {
		e, _ := q.reader.Environment(s.GetEnvironment())
		k := kind{e.GetChannel(), present.GetId(), present.GetVersion(), to.GetId()}
		found, ok := made[k]
		if !ok {
			w := image.Want{
				Agent: &agentv1.Agent{Name: agent}, Choice: choice, Channel: k.channel,
				Platform: s.GetSysinfo().GetPlatform(),
			}
			found.hops, found.refusal = image.Path(q.reader, w, present, to)
			if len(found.hops) > 0 && !q.ask.Walk {
				found.refusal = image.Walked(present, to, found.hops)
			}
			made[k] = found
		}
		return found.hops, found.refusal
	}
}

// fitWay returns why an image or one of the hops to it cannot run on a server, or nil.
func (q *question) fitWay(s *serverv1.Server, hops []*imagev1.Manifest, to *imagev1.Manifest) *apiv1.Refusal {
	for _, m := range append(slices.Clip(hops), to) {
		if why := q.fits(m, s); why != nil {
			return why
		}
	}
	return nil
}
