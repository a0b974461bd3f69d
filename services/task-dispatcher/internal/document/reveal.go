package document

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"

	"github.com/garrison-fleet/garrison/pkg/metadata"
	"github.com/garrison-fleet/garrison/pkg/secret"
)

// Reveal returns the document with its secrets in clear, for the server alone. Without secrets it is the document
// itself; otherwise a copy that shares everything else. The executor refuses a change that lacks a secret, so an entry
// whose secrets do not open stays, and the first such error is returned.
func Reveal(d *desiredv1.Document, key *secret.Key) (*desiredv1.Document, error) {
	var failed error
	out := d
	for n, e := range d.GetEntries() {
		secrets, err := metadata.Open(key, e.GetMetadata())
		if err != nil && failed == nil {
			failed = fmt.Errorf("agent %s: %w", e.GetAgent(), err)
		}
		if len(secrets) == 0 {
			continue
		}
		if out == d {
			out = shallow(d)
			out.Entries = slices.Clone(d.GetEntries())
		}
		out.Entries[n] = shallow(e)
		out.Entries[n].Secrets = secrets
	}
	return out, failed
}

// shallow returns a copy of a message that shares its parts.
func shallow[T proto.Message](m T) T {
	out := m.ProtoReflect().New()
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		out.Set(f, v)
		return true
	})
	return out.Interface().(T)
}
