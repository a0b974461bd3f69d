package record

import (
	"strconv"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// RevisionFlag adds the flag for the revision that a change is based on; 0 is the one that the command read.
func RevisionFlag(f *pflag.FlagSet, to *uint64) {
	cli.RevisionVar(f, to, "refuse unless the record has this `REVISION`, which show prints")
}

// basedOn makes a record the change of a revision. Without one it stays the change of the revision that was read.
func basedOn[T Record](t T, revision uint64) {
	m := t.ProtoReflect()
	if f := m.Descriptor().Fields().ByName("revision"); revision != 0 {
		m.Set(f, protoreflect.ValueOfUint64(revision))
	}
}

// LastChange returns the columns of a record's last change.
func LastChange[T interface {
	GetRevision() uint64
	GetChangedBy() string
	GetChangedAt() *timestamppb.Timestamp
}]() []output.Column[T] {
	return []output.Column[T]{
		output.Wide("CHANGED", func(t T) string { return output.Stamp(t.GetChangedAt()) }),
		output.Wide("CHANGED-BY", func(t T) string { return t.GetChangedBy() }),
		output.Wide("REVISION", func(t T) string { return strconv.FormatUint(t.GetRevision(), 10) }),
	}
}
