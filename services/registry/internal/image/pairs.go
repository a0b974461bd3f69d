package image

import (
	"fmt"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	"github.com/garrison-fleet/garrison/pkg/version"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// Works reports whether a version is one that a requirement names.
func Works(q *imagev1.Requirement, have string) bool {
	return q.GetVersions() == "" || version.In(have, []string{q.Versions})
}

// Pairs returns why an image must not run beside the other agents of a server, or nil: it requires a version of one
// that is not there, or one that is there requires another version of its agent. A change under way may fail, so of
// the others both what is wanted and what runs must fit.
func Pairs(r Reader, m *imagev1.Manifest, s *serverv1.Server, others []*instancev1.Instance) *apiv1.Refusal {
	for _, q := range m.GetRequires() {
		if why := lacks(m, q, s, others); why != nil {
			return why
		}
	}
	for _, o := range others {
		if o.Agent == m.Agent || o.Wanted == nil {
			continue
		}
		for _, ref := range []*imagev1.Ref{o.Wanted, instance.Placed(o)} {
			i, _ := r.Image(ref.GetId())
			if q := Requirement(i.GetManifest(), m.Agent); q != nil && !Works(q, m.Version) {
				return refuse(code.RequirementUnmet, fmt.Sprintf("%s on server %q requires %s %s, and this is %s",
					named(i.Manifest), s.GetName(), q.Agent, q.Versions, m.Version),
					"garrison image show "+i.Manifest.Id)
			}
		}
	}
	return nil
}

// Requirement returns what an image requires of an agent, or nil.
func Requirement(m *imagev1.Manifest, agent string) *imagev1.Requirement {
	for _, q := range m.GetRequires() {
		if q.Agent == agent {
			return q
		}
	}
	return nil
}

func lacks(
	m *imagev1.Manifest, q *imagev1.Requirement, s *serverv1.Server, others []*instancev1.Instance,
) *apiv1.Refusal {
	what := fmt.Sprintf("%s requires agent %q %s", named(m), q.Agent, q.Versions)
	for _, o := range others {
		if o.Agent != q.Agent || o.Wanted == nil {
			continue
		}
		for _, ref := range []*imagev1.Ref{o.Wanted, instance.Placed(o)} {
			if ref != nil && !Works(q, ref.Version) {
				return refuse(code.RequirementUnmet,
					fmt.Sprintf("%s; server %q has %s", what, s.GetName(), ref.Version),
					fmt.Sprintf("garrison rollout start %s %s@%s --on %s", q.Agent, m.Agent, m.Version, s.GetId()))
			}
		}
		return nil
	}
	return refuse(code.RequirementUnmet, fmt.Sprintf("%s, which server %q lacks", what, s.GetName()),
		fmt.Sprintf("garrison install %s --on %s", q.Agent, s.GetId()))
}
