// Package declared is the life that application, environment and agent have in common: an operator
// creates, changes and deletes a whole record.
//
// Guarantee: a record is created once and changed or deleted only while it exists.
package declared

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/fsm"
)

// State is whether the record exists.
type State string

// The states.
const (
	Absent  State = "absent"
	Present State = "present"
)

// Life lists which facts can happen in which state, and the state that follows.
var Life = fsm.Table[State, string]{
	Absent:  {"created": Present},
	Present: {"changed": Present, "deleted": Absent},
}

// Next returns whether the record exists after a fact, and whether the fact fits.
func Next(exists bool, fact string) (existsAfter, fit bool) {
	have := Absent
	if exists {
		have = Present
	}
	next, fit := Life.Next(have, fact)
	return next == Present, fit
}

// CreatedAt returns when a record was created: as before, or now when there was none.
func CreatedAt(before *timestamppb.Timestamp, now time.Time) *timestamppb.Timestamp {
	if before != nil {
		return before
	}
	return timestamppb.New(now)
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
