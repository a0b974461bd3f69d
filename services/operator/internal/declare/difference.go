package declare

import (
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Differences returns the fields of a kind, and the values of its maps, in which two records differ, by path. Either
// record may be nil.
func (k *Kind) Differences(a, b proto.Message) []Field {
	var out []Field
	for _, f := range k.fields() {
		for _, path := range paths(f, a, b) {
			l, ok := k.leafAt(path)
			if !ok {
				continue
			}
			d := Field{Path: path, Before: l.textOf(a.ProtoReflect()), After: l.textOf(b.ProtoReflect())}
			if d.Before != d.After {
				out = append(out, d)
			}
		}
	}
	return out
}

// paths returns the path of a field, or those of the values that it has in either record.
func paths(f protoreflect.FieldDescriptor, records ...proto.Message) []string {
	if !f.IsMap() {
		return []string{f.JSONName()}
	}
	var out []string
	for _, m := range records {
		for _, key := range keysOf(m.ProtoReflect().Get(f).Map()) {
			out = append(out, f.JSONName()+"."+key.String())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
