// Package manifest checks the manifests of images. It is pure: the build, the import, the image-catalog and each
// server check a manifest with the same code, and refuse it for the same reasons.
//
//	err := manifest.Check(m)
//	fault.RefusalOf(err).GetFaults() // every fault, with its field and code
//
// Guarantees:
//
//  1. A manifest that Check lets pass has sizes and counts within the bounds below, paths that stay inside the image,
//     and an id that fits its content.
//  2. A refusal lists every fault, at most one for each field and maxFaults together, the same for the same
//     manifest. It is of kind Invalid.
package manifest

import (
	"encoding/hex"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/seal"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

// ID computes the id that the manifest must have, from agent, version, platform and digest.
func ID(m *imagev1.Manifest) string {
	return ident.From("image", m.GetAgent(), m.GetVersion(), m.GetPlatform().GetOs(), m.GetPlatform().GetArch(),
		hex.EncodeToString(m.GetBlob().GetDigest()))
}

// Check refuses an invalid manifest, and lists every fault. It does not read the content.
func Check(m *imagev1.Manifest) error {
	f := &Faults{}
	f.Settings(m)
	f.blob(m.GetBlob())
	f.Take("seal", seal.Check(m))
	if want := ID(m); len(f.list) == 0 && m.Id != want {
		f.Add("id", code.WrongID, "image id %q does not fit agent, version, platform and digest (want %s)", m.Id, want)
	}
	return f.Err()
}

// Settings adds the faults of what a person chooses: of everything but the content, the id and the signatures.
func (f *Faults) Settings(m *imagev1.Manifest) {
	f.names(m)
	f.kind(m)
	f.needs(m)
	f.machine(m.GetMachine())
	f.paths(m)
	how := runFaults{f}
	how.run(m.GetRun())
	how.sockets(m)
	how.configs(m)
	how.confinement(m)
	f.texts(m)
}
