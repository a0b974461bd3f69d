package declared

import (
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxChanged is how many names Changed returns at most.
const maxChanged = 16

// folded are the fields that the fold sets; no fact holds a record with them.
var folded = []protoreflect.Name{"created_at", "changed_at", "revision", "changed_by", "changed", "defaults"}

// Bare returns a copy of a record without the fields that the fold sets.
func Bare[T proto.Message](record T) T {
	out := proto.CloneOf(record)
	m := out.ProtoReflect()
	if !m.IsValid() {
		return out // nil
	}
	for _, name := range folded {
		if f := m.Descriptor().Fields().ByName(name); f != nil {
			m.Clear(f)
		}
	}
	return out
}

// Changed returns the names of the fields in which two records differ, and FIELD.KEY for each entry of a map: sorted,
// and the first 16 of them.
func Changed[T proto.Message](before, after T) []string {
	var out []string
	a, b := Bare(before).ProtoReflect(), Bare(after).ProtoReflect()
	fields := a.Descriptor().Fields()
	for n := range fields.Len() {
		f := fields.Get(n)
		switch {
		case a.Get(f).Equal(b.Get(f)):
		case f.IsMap():
			out = append(out, changedEntries(string(f.Name()), a.Get(f).Map(), b.Get(f).Map())...)
		default:
			out = append(out, string(f.Name()))
		}
	}
	slices.Sort(out)
	return out[:min(len(out), maxChanged)]
}

func changedEntries(field string, a, b protoreflect.Map) []string {
	var out []string
	b.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		if !a.Has(k) || !a.Get(k).Equal(v) {
			out = append(out, field+"."+k.String())
		}
		return true
	})
	a.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		if !b.Has(k) {
			out = append(out, field+"."+k.String())
		}
		return true
	})
	return out
}
