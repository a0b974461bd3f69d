package decision

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"

	"github.com/garrison-fleet/garrison/services/image-catalog/internal/view"
)

// Create decides that an image with a valid manifest is created.
//
// Its guard spans every image that was ever created: two builds of one version have different
// keys, and two catalogs that receive one each must not both accept theirs.
func Create(v *view.View, m *imagev1.Manifest) ([]ledger.Draft, error) {
	if have, ok := v.Image(m.Id); ok {
		return nil, checkSame(have.Manifest, m)
	}
	if id, ok := v.ByBuild(m); ok {
		have, _ := v.Image(id)
		return nil, versionExists(id, "%s exists with another content (digest %.12x, this one has %.12x); "+
			"a version never changes, so build it as a new one", view.Label(m),
			have.Manifest.GetBlob().GetDigest(), m.GetBlob().GetDigest())
	}
	for _, id := range v.ByDigest(m.GetBlob().GetDigest()) {
		if have, _ := v.Image(id); !proto.Equal(have.Manifest.Blob, m.Blob) {
			return nil, refuse(fault.Conflict, code.OtherChunks,
				"%s (%s) has the same digest %.12x but is cut into other chunks; one of the two manifests is wrong", id,
				view.Label(have.Manifest), m.GetBlob().GetDigest()).
				Near(id).Try("garrison image show " + id)
		}
	}
	created := imageFact(m.Id, &imagev1.Created{Manifest: m})
	every := imageFact("*", created.Body).Subject()
	return []ledger.Draft{
		{Fact: created, Guard: ledger.Guard{Subject: every, Sequence: v.CreatedSequence()}},
	}, nil
}

// checkSame accepts a repeated manifest. Its time of publication and the signatures, which cover
// that time, may differ: a build can be repeated. A new signer is refused: a version never changes.
func checkSame(have, again *imagev1.Manifest) error {
	a, b := proto.CloneOf(have), proto.CloneOf(again)
	a.PublishedAt, b.PublishedAt = nil, nil
	a.Seal, b.Seal = nil, nil
	if proto.Equal(a, b) {
		return checkSigners(have, again)
	}
	return versionExists(have.Id, "%s exists with the same content and another %s; "+
		"a version never changes, so build it as a new one", view.Label(have), strings.Join(differing(a, b), ", "))
}

func checkSigners(have, again *imagev1.Manifest) error {
	for _, s := range again.GetSeal().GetSignatures() {
		same := func(h *imagev1.Signature) bool { return h.Key == s.Key }
		if !slices.ContainsFunc(have.GetSeal().GetSignatures(), same) {
			return versionExists(have.Id, "%s exists without the signature of %s", view.Label(have), s.Key).
				Try("garrison image delete " + have.Id + ", and import it again; or a new version")
		}
	}
	return nil
}

func versionExists(id, format string, args ...any) *fault.Error {
	return refuse(fault.Conflict, code.VersionExists, format, args...).Near(id).Try("garrison image show " + id)
}

// differing returns the names of the fields in which two manifests differ.
func differing(a, b *imagev1.Manifest) (names []string) {
	fields := a.ProtoReflect().Descriptor().Fields()
	for n := range fields.Len() {
		f := fields.Get(n)
		if !a.ProtoReflect().Get(f).Equal(b.ProtoReflect().Get(f)) {
			names = append(names, string(f.Name()))
		}
	}
	return names
}
