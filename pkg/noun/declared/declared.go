// Package declared is the life of nouns whose facts hold the whole record. Operators create, change and delete an
// application, an environment or an agent; a hold, a label rule, a block, an external instance and a rejected key are
// set and end.
//
// Guarantee: a record is created once and changed or deleted only while it exists.
package declared

import (
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/fsm"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// State is whether the record exists.
type State string

// The states.
const (
	Absent  State = "absent"
	Present State = "present"
)

// Table lists which facts can happen in which state, and the state that follows.
type Table = fsm.Table[State, string]

// Life is the table of a noun that operators create, change and delete.
var Life = Table{
	Absent:  {"created": Present},
	Present: {"changed": Present, "deleted": Absent},
}

type record interface {
	comparable
	proto.Message
}

// Next returns whether the record exists after a fact, and whether the fact fits.
func Next(life Table, exists bool, fact string) (existsAfter, fit bool) {
	have := Absent
	if exists {
		have = Present
	}
	next, fit := life.Next(have, fact)
	return next == Present, fit
}

// Set folds a fact of a noun that is set and ends into its record, which is nil for an unknown one, and returns the
// record after it; nil means that it is gone. The body of a fact that sets the record is the record; complete adds what
// follows from the rest of the fact. Set returns false, and the record unchanged, for a fact that does not fit.
func Set[T record](life Table, have T, f ledger.Fact, complete func(next T)) (next T, fit bool) {
	var none T
	exists, fit := Next(life, have != none, f.Name())
	switch {
	case !fit:
		return have, false
	case !exists:
		return none, true
	}
	body, ok := f.Body.(T)
	if !ok {
		return have, false
	}
	next = proto.CloneOf(body)
	complete(next)
	return next, true
}

// Apply folds a fact of a noun that operators create, change and delete into its record, which is nil for an
// unknown one, and returns the record after it; nil means that it is deleted. It returns false, and the record
// unchanged, for a fact that does not fit.
func Apply[T record](have T, f ledger.Fact) (next T, fit bool) {
	var none T
	exists, fit := Next(Life, have != none, f.Name())
	switch {
	case !fit:
		return have, false
	case !exists:
		return none, true
	}
	if next = proto.CloneOf(Body[T](f)); next == none {
		return have, false
	}
	set := func(field protoreflect.Name, v any) {
		m := next.ProtoReflect()
		m.Set(m.Descriptor().Fields().ByName(field), protoreflect.ValueOf(v))
	}
	at := timestamppb.New(f.At).ProtoReflect()
	next = Bare(next)
	set("name", f.Key)
	set("created_at", at)
	set("revision", f.Sequence)
	set("changed_by", f.Actor)
	if have == none {
		return next, true
	}
	fields := have.ProtoReflect().Descriptor().Fields()
	if created := fields.ByName("created_at"); have.ProtoReflect().Has(created) {
		set("created_at", have.ProtoReflect().Get(created).Message())
	}
	set("changed_at", at)
	changed := next.ProtoReflect().Mutable(fields.ByName("changed")).List()
	for _, field := range Changed(have, next) {
		changed.Append(protoreflect.ValueOfString(field))
	}
	return next, true
}

// Body returns the record in a fact that creates or changes it, or nil.
func Body[T record](f ledger.Fact) (found T) {
	f.Body.ProtoReflect().Range(func(_ protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if m, ok := v.Interface().(protoreflect.Message); ok {
			found, _ = m.Interface().(T)
		}
		return true
	})
	return found
}

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
