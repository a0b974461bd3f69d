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
	"fmt"
	"slices"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/manifest"
	"github.com/garrison-fleet/garrison/pkg/version"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// WithoutContent returns a manifest without the fields that only fetching and running need: a large
// image has thousands of chunk digests, and the registry keeps every image in memory.
func WithoutContent(m *imagev1.Manifest) *imagev1.Manifest {
	kept := &imagev1.Manifest{
		Id: m.GetId(), Agent: m.GetAgent(), Version: m.GetVersion(), Kind: m.GetKind(),
		Platform: m.GetPlatform(), PublishedAt: m.GetPublishedAt(),
		ExecutorVersion: m.GetExecutorVersion(), Conflicts: m.GetConflicts(),
		UpgradesFrom: m.GetUpgradesFrom(), Skips: m.GetSkips(), Floor: m.GetFloor(), Requires: m.GetRequires(),
		Machine: m.GetMachine(),
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

// Fits returns why an image cannot run on a server beside its other agents, or nil. The executor
// checks again with what only it knows, such as the exact free disk space.
func Fits(r Reader, m *imagev1.Manifest, s *serverv1.Server, others []*instancev1.Instance) *apiv1.Refusal {
	if have := s.GetSysinfo().GetExecutorVersion(); version.Before(have, m.ExecutorVersion) {
		return refuse(code.ExecutorTooOld, fmt.Sprintf("%s needs an executor of version %s; server %q has %s",
			named(m), m.ExecutorVersion, s.Name, have), "garrison server list -o wide")
	}
	if why := unfit(m, s); why != nil {
		return why
	}
	for _, o := range others {
		if o.Agent != m.Agent && (slices.Contains(m.Conflicts, o.Agent) || conflicts(r, o, m.Agent)) {
			return refuse(code.Conflicts, fmt.Sprintf("%s must not be on server %q together with agent %q",
				named(m), s.Name, o.Agent), fmt.Sprintf("garrison remove %s --on %s", o.Agent, s.Id))
		}
	}
	return nil
}

// unfit returns why a machine cannot run an image, all of it, or nil. A lack of disk alone has a code of its own.
func unfit(m *imagev1.Manifest, s *serverv1.Server) *apiv1.Refusal {
	lacks, disk := manifest.Lacks(m.Machine, s.GetSysinfo()), lackOfDisk(m, s)
	why, try := code.UnfitMachine, "garrison server show "+s.Id
	if disk != nil {
		if try += "; garrison server refresh " + s.Id; len(lacks) == 0 {
			why = code.NoSpace
		}
		lacks = append(lacks, *disk)
	}
	if len(lacks) == 0 {
		return nil
	}
	return refuse(why, fmt.Sprintf("%s cannot run on server %q: %s", named(m), s.Name, manifest.Words(lacks)), try)
}

func named(m *imagev1.Manifest) string { return m.Agent + " " + m.Version }

// needs returns how many bytes must be free for an image: for its files, and what it asks for beside them.
func needs(m *imagev1.Manifest) uint64 {
	return m.GetBlob().GetUnpackedSizeBytes() + m.GetMachine().GetDiskBytes()
}

func largestDisk(s *serverv1.Server) (most uint64) {
	for _, d := range s.GetSysinfo().GetDisks() {
		most = max(most, d.SizeBytes)
	}
	return most
}

// conflicts reports whether the image of an instance conflicts with an agent.
func conflicts(r Reader, o *instancev1.Instance, agent string) bool {
	for _, ref := range []*imagev1.Ref{o.Wanted, o.Observed} {
		if i, ok := r.Image(ref.GetId()); ok && slices.Contains(i.Manifest.Conflicts, agent) {
			return true
		}
	}
	return false
}

// largestRoom is the size class beyond which an executor does not tell free space apart.
const largestRoom = 64 << 30

// lackOfDisk returns what an image certainly lacks of the disks of a server, or nil. The free space is less than two
// and a half times what the executor reports.
func lackOfDisk(m *imagev1.Manifest, s *serverv1.Server) *manifest.Lack {
	need, most, room := needs(m), largestDisk(s), s.GetSysinfo().GetRoomBytes()
	wanted := manifest.Size(need) + " of disk"
	switch free := 2*room + room/2; {
	case most > 0 && need > most:
		return &manifest.Lack{Wanted: wanted, Found: manifest.Size(most) + " on its largest one"}
	case room > 0 && room < largestRoom && need >= free:
		return &manifest.Lack{Wanted: wanted, Found: "less than " + manifest.Size(free) + " free"}
	}
	return nil
}
