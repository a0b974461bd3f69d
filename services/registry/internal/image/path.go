package image

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	"github.com/garrison-fleet/garrison/pkg/version"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// mostHops bounds the images between two versions.
const mostHops = 16

// Replaces reports whether an image may replace a version of its agent at once. from is nil where the manifest of
// the present version is unknown; then its floor is not known either.
func Replaces(to *imagev1.Manifest, present string, from *imagev1.Manifest) bool {
	switch order := version.Compare(to.Version, present); {
	case order == 0:
		return true
	case order < 0:
		return from.GetFloor() == "" || version.Compare(to.Version, from.GetFloor()) >= 0
	}
	return slices.Contains(to.Skips, present) || version.In(present, to.UpgradesFrom)
}

// Path returns the images through which the present version of an agent becomes another image, in order; none where
// it may replace it at once. It returns a refusal when no path leads there. Hops are active images of the channel in
// which the image is looked for; the path has as few as possible, and of those the highest versions.
func Path(r Reader, w Want, present *imagev1.Ref, to *imagev1.Manifest) ([]*imagev1.Manifest, *apiv1.Refusal) {
	from, _ := r.Image(present.GetId())
	if present == nil || Replaces(to, present.Version, from.GetManifest()) {
		return nil, nil
	}
	if Older(to.Version, present.Version) {
		return nil, refuse(code.NoUpgradePath, fmt.Sprintf("%s must not be replaced by a version below %s, such as %s",
			named(from.Manifest), from.Manifest.Floor, to.Version), "garrison image show "+from.Manifest.Id)
	}
	hops, searched := between(r, w, present.Version, to)
	path, reached := shortest(present.Version, to, hops)
	if path != nil && len(path) <= mostHops {
		return path, nil
	}
	return nil, noPath(w, present, to, reached, searched)
}

// between returns the manifests that may be hops, from the highest version down, and in which channel they are.
func between(r Reader, w Want, present string, to *imagev1.Manifest) (hops []*imagev1.Manifest, channel string) {
	c, refusal := channelOf(r, w)
	if refusal != nil {
		return nil, "(none)"
	}
	skipped := slices.Clone(to.Skips)
	for _, id := range c.ImageIds {
		i, ok := r.Image(id)
		if !ok || i.Manifest.Agent != to.Agent || !samePlatform(i.Manifest.Platform, to.Platform) ||
			i.State != imagev1.State_STATE_ACTIVE || !Older(present, i.Manifest.Version) ||
			!Older(i.Manifest.Version, to.Version) {
			continue
		}
		hops, skipped = append(hops, i.Manifest), append(skipped, i.Manifest.Skips...)
	}
	hops = slices.DeleteFunc(hops, func(m *imagev1.Manifest) bool { return slices.Contains(skipped, m.Version) })
	slices.SortFunc(hops, func(a, b *imagev1.Manifest) int {
		return cmp.Or(version.Compare(b.Version, a.Version), cmp.Compare(a.Id, b.Id))
	})
	return hops, c.Name
}

// shortest returns the hops of the shortest path; nil when there is no path, and then the highest version that can be
// reached.
func shortest(present string, to *imagev1.Manifest, hops []*imagev1.Manifest) (path []*imagev1.Manifest, most string) {
	type node struct {
		version string
		path    []*imagev1.Manifest
	}
	seen := map[string]bool{}
	for level := []node{{version: present}}; len(level) > 0; {
		var next []node
		for _, n := range level {
			for _, m := range hops {
				if seen[m.Id] || !Older(n.version, m.Version) || !Replaces(m, n.version, nil) {
					continue
				}
				seen[m.Id] = true
				on := node{m.Version, append(slices.Clone(n.path), m)}
				if Replaces(to, m.Version, m) {
					return on.path, ""
				}
				if next = append(next, on); most == "" || Older(most, m.Version) {
					most = m.Version
				}
			}
		}
		level = next
	}
	return nil, most
}

func noPath(w Want, present *imagev1.Ref, to *imagev1.Manifest, reached, channel string) *apiv1.Refusal {
	text := fmt.Sprintf("%s upgrades from %s, not from %s, and no path leads there in channel %s",
		named(to), strings.Join(to.UpgradesFrom, " or "), present.Version, channel)
	if reached == "" {
		return refuse(code.NoUpgradePath, text+"; no image there may replace "+present.Version, list(w.Agent.Name))
	}
	return refuse(code.NoUpgradePath, fmt.Sprintf("%s; the highest version on the way is %s", text, reached),
		fmt.Sprintf("garrison up %s@%s --on SELECTOR", w.Agent.Name, reached))
}

// Walked refuses an image that is reached by way of others: an intent of its own brings one image.
func Walked(present *imagev1.Ref, to *imagev1.Manifest, path []*imagev1.Manifest) *apiv1.Refusal {
	return refuse(code.NoUpgradePath, fmt.Sprintf("%s upgrades from %s, not from %s: the way goes by %s", named(to),
		strings.Join(to.UpgradesFrom, " or "), present.GetVersion(), strings.Join(versions(path), ", ")),
		fmt.Sprintf("garrison rollout start %s@%s --on SELECTOR, which goes that way", to.Agent, to.Version))
}

func versions(path []*imagev1.Manifest) (out []string) {
	for _, m := range path {
		out = append(out, m.Version)
	}
	return out
}

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
