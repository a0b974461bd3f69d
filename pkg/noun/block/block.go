// Package block is the life of the noun block: a build that no intent brings to another server, because it failed on
// servers or an operator said so. The registry writes the noun.
//
//	next, fit := block.Apply(record, fact)
//
// Guarantees:
//
//  1. A record exists from the time that a build is blocked until the block is lifted.
//  2. One build has one id: an image on a platform, one configuration of an agent, or both together. Another version is
//     another build, also with the same files: the command that it runs may differ.
package block

import (
	"encoding/hex"
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/declared"
	blockv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/block/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// Named is how many servers a block names.
const Named = 20

// Life lists which facts can happen in which state, and the state that follows.
var Life = declared.Table{
	declared.Absent:  {"set": declared.Present},
	declared.Present: {"lifted": declared.Absent},
}

// Apply folds a fact into a block's record, as declared.Set does.
func Apply(have *blockv1.Block, f ledger.Fact) (*blockv1.Block, bool) {
	return declared.Set(Life, have, f, func(b *blockv1.Block) {
		b.Id, b.SetAt, b.SetBy = f.Key, timestamppb.New(f.At), f.Actor
	})
}

// OfImage returns the build of an image on a platform.
func OfImage(agent string, image *imagev1.Ref, p *serverv1.Platform) *blockv1.Build {
	return &blockv1.Build{Agent: agent, Image: image, Platform: p.GetOs() + "/" + p.GetArch()}
}

// OfConfiguration returns the build of a configuration of an agent.
func OfConfiguration(agent string, digest []byte) *blockv1.Build {
	return &blockv1.Build{Agent: agent, ConfigurationDigest: digest}
}

// OfBoth returns the build of an image on a platform together with a configuration: either may be good without the
// other.
func OfBoth(agent string, image *imagev1.Ref, p *serverv1.Platform, digest []byte) *blockv1.Build {
	b := OfImage(agent, image, p)
	b.ConfigurationDigest = digest
	return b
}

// Both reports whether a build is an image together with a configuration.
func Both(b *blockv1.Build) bool { return b.GetImage() != nil && len(b.GetConfigurationDigest()) > 0 }

// Parts returns the image and the configuration of a build that is both, each alone.
func Parts(b *blockv1.Build) (image, configuration *blockv1.Build) {
	return &blockv1.Build{Agent: b.GetAgent(), Image: b.GetImage(), Platform: b.GetPlatform()},
		OfConfiguration(b.GetAgent(), b.GetConfigurationDigest())
}

// Change is what a change makes of an agent on a server.
type Change struct {
	Agent                  string
	Image                  *imagev1.Ref
	Platform               *serverv1.Platform
	Configuration          []byte // its digest
	NewImage, Reconfigured bool   // what of both changes
}

// Brought returns the builds that a change brings: the new image, the new configuration, and the two together. None
// of them may be blocked.
func (c Change) Brought() (out []*blockv1.Build) {
	configured := len(c.Configuration) > 0
	if c.NewImage {
		out = append(out, OfImage(c.Agent, c.Image, c.Platform))
	}
	if c.Reconfigured && configured {
		out = append(out, OfConfiguration(c.Agent, c.Configuration))
	}
	if len(out) > 0 && configured {
		out = append(out, OfBoth(c.Agent, c.Image, c.Platform, c.Configuration))
	}
	return out
}

// Blamed returns the build that is to blame when a change fails: what changed. With an unchanged image, its
// configuration is; nil without one.
func (c Change) Blamed() *blockv1.Build {
	configured := len(c.Configuration) > 0
	switch {
	case c.NewImage && c.Reconfigured && configured:
		return OfBoth(c.Agent, c.Image, c.Platform, c.Configuration)
	case c.NewImage:
		return OfImage(c.Agent, c.Image, c.Platform)
	case configured:
		return OfConfiguration(c.Agent, c.Configuration)
	}
	return nil
}

// ID returns the id of a build's block.
func ID(b *blockv1.Build) string {
	switch digest := hex.EncodeToString(b.GetConfigurationDigest()); {
	case b.GetImage() == nil:
		return ident.From("block", "configuration", b.GetAgent(), digest)
	case Both(b):
		return ident.From("block", "both", b.Image.Id, b.Platform, digest)
	}
	return ident.From("block", "image", b.Image.Id, b.Platform)
}

// Words returns a build in words.
func Words(b *blockv1.Build) string {
	digest := hex.EncodeToString(b.GetConfigurationDigest())
	if b.GetImage() == nil {
		return fmt.Sprintf("configuration %.12s of agent %q", digest, b.GetAgent())
	}
	text := fmt.Sprintf("%s %s for %s", b.Agent, b.Image.Version, b.Platform)
	if Both(b) {
		text += fmt.Sprintf(" with configuration %.12s", digest)
	}
	return text
}
