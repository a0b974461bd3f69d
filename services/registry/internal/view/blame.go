package view

import (
	"bytes"
	"slices"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/block"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	blockv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/block/v1"
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
