// Package image chooses the image for a server. The image-catalog writes the nouns image and
// channel; their lives are in pkg/noun.
//
// Guarantees:
//
//  1. Choose returns an active image of the right agent, kind and platform, or a refusal that
//     names what was searched.
//  2. The newest image of a channel is the one with the highest version, in whatever order
//     they were added.
//  3. Fits returns why a chosen image cannot run on a server, as far as the registry knows that
//     without asking the server.
package image

import (
	"slices"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

// WithoutContent returns a manifest without the fields that only fetching and running need: a large
// image has thousands of chunk digests, and the registry keeps every image in memory.
func WithoutContent(m *imagev1.Manifest) *imagev1.Manifest {
	kept := &imagev1.Manifest{
		Id: m.GetId(), Agent: m.GetAgent(), Version: m.GetVersion(), Kind: m.GetKind(),
		Platform: m.GetPlatform(), PublishedAt: m.GetPublishedAt(),
		ExecutorVersion: m.GetExecutorVersion(), Conflicts: m.GetConflicts(),
		UpgradesFrom: m.GetUpgradesFrom(), Skips: m.GetSkips(), Floor: m.GetFloor(), Requires: m.GetRequires(),
	}
	if m.GetBlob() != nil {
		kept.Blob = &imagev1.Blob{
			Digest: m.Blob.Digest, SizeBytes: m.Blob.SizeBytes, UnpackedSizeBytes: m.Blob.UnpackedSizeBytes,
		}
	}
	return kept
}

// Ref returns the reference to an image.
func Ref(m *imagev1.Manifest) *imagev1.Ref {
	return &imagev1.Ref{Id: m.GetId(), Version: m.GetVersion(), Digest: slices.Clone(m.GetBlob().GetDigest())}
}

// Same reports whether two references name the same image.
func Same(a, b *imagev1.Ref) bool { return a.GetId() == b.GetId() }
