package change

import (
	"google.golang.org/protobuf/encoding/protojson"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

// Manifest is an image's manifest that can be kept in a record.
type Manifest struct{ *imagev1.Manifest }

// MarshalJSON writes the manifest as the protocol's own JSON.
func (m Manifest) MarshalJSON() ([]byte, error) {
	if m.Manifest == nil {
		return []byte("null"), nil
	}
	return protojson.Marshal(m.Manifest)
}

// UnmarshalJSON reads the manifest. It ignores fields of a newer executor.
func (m *Manifest) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		m.Manifest = nil
		return nil
	}
	m.Manifest = &imagev1.Manifest{}
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, m.Manifest)
}

// Ref returns the image's reference; nil without a manifest.
func (m Manifest) Ref() *imagev1.Ref {
	if m.Manifest == nil {
		return nil
	}
	return &imagev1.Ref{Id: m.Id, Version: m.Version, Digest: m.Blob.GetDigest()}
}

// Digest returns the image's digest; nil without a manifest.
func (m Manifest) Digest() []byte { return m.GetBlob().GetDigest() }

// IsSelf reports whether the image holds the executor's own program.
func (m Manifest) IsSelf() bool { return m.GetKind() == agentv1.Kind_KIND_SELF }

// IsDaemon reports whether the image's agent is a process that stays.
func (m Manifest) IsDaemon() bool { return m.GetKind() == agentv1.Kind_KIND_DAEMON }
