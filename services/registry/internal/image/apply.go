// Package image is what the registry knows of images and channels, and how it chooses
// an image for a target. The image-catalog owns both nouns.
//
// Guarantees:
//
//  1. Choose gives an image that is active, of the right agent, kind and platform, or a
//     refusal that says what was searched.
//  2. The newest image of a channel is the one with the highest version, in whatever order
//     they were added.
//  3. Fits returns why an image that was chosen cannot run on a server, as far as that is
//     known before the server is asked.
package image

import (
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/fsm"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

// gone is where a deleted image ends; no row is kept of it.
const gone imagev1.State = -1

// life says which facts fit where.
var life = fsm.Table[imagev1.State, string]{
	imagev1.State_STATE_UNSPECIFIED: {"created": imagev1.State_STATE_UNACTIVATED},
	imagev1.State_STATE_UNACTIVATED: {
		"filled": imagev1.State_STATE_UNACTIVATED, "activated": imagev1.State_STATE_ACTIVE, "deleted": gone,
	},
	imagev1.State_STATE_ACTIVE:   {"disabled": imagev1.State_STATE_DISABLED, "deleted": gone},
	imagev1.State_STATE_DISABLED: {"enabled": imagev1.State_STATE_ACTIVE, "deleted": gone},
	gone:                         {},
}

// Apply folds a fact into the image's row, which may be nil; nil after it means deleted.
// A fact that does not fit gives false, and the row is as it was.
func Apply(i *imagev1.Image, f ledger.Fact) (*imagev1.Image, bool) {
	next, ok := life.Next(i.GetState(), f.Name())
	if !ok {
		return i, false
	}
	if next == gone {
		return nil, true
	}
	switch b := f.Body.(type) {
	case *imagev1.Created:
		i = &imagev1.Image{Manifest: withoutContent(b.Manifest)}
	case *imagev1.Filled:
		i.Filled = true
	case *imagev1.Disabled:
		i.Reason = b.Reason
	case *imagev1.Enabled:
		i.Reason = ""
	}
	if next != i.State {
		i.State, i.Since = next, timestamppb.New(f.At)
	}
	return i, true
}

// withoutContent leaves out what only fetching and running need: a large image has
// thousands of chunk digests, and the registry keeps every image in memory.
func withoutContent(m *imagev1.Manifest) *imagev1.Manifest {
	kept := &imagev1.Manifest{
		Id: m.GetId(), Agent: m.GetAgent(), Version: m.GetVersion(), Kind: m.GetKind(),
		Platform: m.GetPlatform(), PublishedAt: m.GetPublishedAt(),
		ExecutorVersion: m.GetExecutorVersion(), Conflicts: m.GetConflicts(),
	}
	if m.GetBlob() != nil {
		kept.Blob = &imagev1.Blob{
			Digest: m.Blob.Digest, SizeBytes: m.Blob.SizeBytes, UnpackedSizeBytes: m.Blob.UnpackedSizeBytes,
		}
	}
	return kept
}

// Ref names an image.
func Ref(m *imagev1.Manifest) *imagev1.Ref {
	return &imagev1.Ref{Id: m.GetId(), Version: m.GetVersion(), Digest: slices.Clone(m.GetBlob().GetDigest())}
}

// ApplyChannel folds a fact into the channel's row, which may be nil; nil after it means deleted.
func ApplyChannel(c *channelv1.Channel, f ledger.Fact) (*channelv1.Channel, bool) {
	if created, ok := f.Body.(*channelv1.Created); ok {
		if c != nil {
			return c, false
		}
		return &channelv1.Channel{
			Name: f.Key, Description: created.Description, Default: created.Default, CreatedAt: timestamppb.New(f.At),
		}, true
	}
	if c == nil {
		return nil, false
	}
	switch b := f.Body.(type) {
	case *channelv1.ImageAdded:
		c.ImageIds = append(without(c.ImageIds, b.ImageId), b.ImageId)
	case *channelv1.ImageRemoved:
		if !slices.Contains(c.ImageIds, b.ImageId) {
			return c, false
		}
		c.ImageIds = without(c.ImageIds, b.ImageId)
	case *channelv1.Deleted:
		return nil, true
	default:
		return c, false
	}
	return c, true
}

func without(ids []string, id string) []string {
	return slices.DeleteFunc(ids, func(x string) bool { return x == id })
}

// Same says whether two references want the same image.
func Same(a, b *imagev1.Ref) bool { return a.GetId() == b.GetId() }
