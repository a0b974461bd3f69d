package view

import (
	"bytes"
	"slices"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/block"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	blockv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/block/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
)

// A change may bring an image and a configuration at once. When it fails, either may be at fault, so both together are
// suspected and neither alone, until one of them failed in other company: an image with two configurations, or a
// configuration with two images.

// blame suspects a build of a failure on a server, and the part of it that failed in other company too.
func (v *faults) blame(b *blockv1.Build, server, intent string, f ledger.Fact) {
	v.suspect(b, server, intent, f)
	if !block.Both(b) {
		return
	}
	image, configuration := block.Parts(b)
	for _, other := range v.together(b) {
		part := configuration
		if instance.SameImage(other.build.Image, b.Image) {
			part = image
		}
		v.suspect(part, server, intent, f)
		for _, s := range other.servers {
			v.suspect(part, s, intent, f)
		}
	}
}

// failed is a build with servers on which it failed.
type failed struct {
	build   *blockv1.Build
	servers []string
}

// together returns the suspects and the blocks that share the image on its platform, or the configuration, with a build
// of both.
func (v *faults) together(b *blockv1.Build) (out []failed) {
	for _, s := range sorted(v.suspects, "") {
		if company(s.Build, b) {
			out = append(out, failed{s.Build, slices.Clone(s.ServerIds)})
		}
	}
	for _, x := range sorted(v.blocks, "") {
		if company(x.Build, b) {
			out = append(out, failed{x.Build, x.ServerIds})
		}
	}
	return out
}

// company reports whether two builds of an image and a configuration differ in one of them.
func company(a, b *blockv1.Build) bool {
	if !block.Both(a) || a.Agent != b.Agent || a.Platform != b.Platform {
		return false
	}
	return instance.SameImage(a.Image, b.Image) != bytes.Equal(a.ConfigurationDigest, b.ConfigurationDigest)
}

// parts returns a build with its parts; none for nil.
func parts(b *blockv1.Build) []*blockv1.Build {
	switch {
	case b == nil:
		return nil
	case !block.Both(b):
		return []*blockv1.Build{b}
	}
	image, configuration := block.Parts(b)
	return []*blockv1.Build{b, image, configuration}
}

// Whether a build is at fault depends on where it works, and servers move on. So the fold counts both at a failure: a
// decision that comes later, or after a restart, rests on what ran when the build failed.

// recountShare bounds what counting costs: a suspect is counted again after one more failure in so many.
const recountShare = 8

// countRuns counts on how many servers a suspect fails and works, unless it was counted a few failures ago.
func (v *faults) countRuns(s *blockv1.Suspect) {
	s.Uncounted++
	if s.Uncounted*recountShare < s.Failing {
		return
	}
	s.Failing, s.Working, s.Uncounted = 0, 0, 0
	for i := range v.InstancesOfAgent(s.Build.GetAgent()) {
		switch {
		case i.State == instancev1.State_STATE_FAILED && code.EndsByBuild(i.TaskCode) &&
			v.has(i, s.Build, i.Wanted, i.Configuration.GetDigest()):
			s.Failing++
		case !v.has(i, s.Build, i.Observed, i.ObservedConfigurationDigest):
		case i.Health == instancev1.Health_HEALTH_GOOD:
			s.Working++
		case i.Health == instancev1.Health_HEALTH_BAD && code.OfBuild(i.ObservedCode):
			s.Failing++
		}
	}
}

// has reports whether an image and a configuration of an instance are a build, or have it.
func (v *faults) has(i *instancev1.Instance, b *blockv1.Build, ref *imagev1.Ref, digest []byte) bool {
	if len(b.ConfigurationDigest) > 0 && !bytes.Equal(digest, b.ConfigurationDigest) {
		return false
	}
	if b.Image == nil {
		return true
	}
	if ref == nil || !instance.SameImage(ref, b.Image) {
		return false
	}
	return block.OfImage(b.Agent, ref, row(v.servers, i.ServerId).GetSysinfo().GetPlatform()).Platform == b.Platform
}
