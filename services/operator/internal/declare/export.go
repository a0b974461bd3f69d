package declare

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Objects returns records as objects of a file, without what a file does not hold.
func Objects(live Live) []*Object {
	var out []*Object
	for _, k := range Kinds {
		for _, name := range slices.Sorted(maps.Keys(live[k])) {
			out = append(out, &Object{Kind: k, Name: name, Record: live[k][name]})
		}
	}
	return out
}

// Trimmed returns a copy of a record with only what files hold, who declares it, and its revision, on which a change is
// based: a server's record is large.
func (k *Kind) Trimmed(record proto.Message) proto.Message {
	out := k.Blank()
	to, from := out.ProtoReflect(), record.ProtoReflect()
	for _, f := range k.fields() {
		if from.Has(f) {
			to.Set(f, from.Get(f))
		}
	}
	for _, name := range []protoreflect.Name{"owners", "revision"} {
		if f := from.Descriptor().Fields().ByName(name); f != nil && from.Has(f) {
			to.Set(f, from.Get(f))
		}
	}
	return out
}
