package view

import (
	"bytes"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/noun/block"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	blockv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/block/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
)

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
