// Package strict reports what a message holds that this program does not know: fields and
// enum values of a newer contract.
//
// Protocol Buffers keep unknown fields in silence. A receiver that acts on such a message
// does a part of what was asked. Whoever acts on a message checks it first and refuses it.
//
// Guarantees:
//
//  1. Check walks the whole message: nested messages, lists, maps and groups.
//  2. Check returns nil for every message that has only fields and enum values of the
//     contract that this program was built with.
//  3. The error names each finding by its path: field names, list indexes, map keys, and the
//     number of the unknown field. It names MaxNamed of them at most and counts the rest.
//
// An encoded message inside a bytes field is opaque here; check it after it is decoded.
// Enum values of 0 are known: whether a value may be unspecified is the caller's rule.
//
//	if err := strict.Check(entry); err != nil {
//		return refuse("EXECUTOR_TOO_OLD", "%v", err) // run.sandbox: unknown field 9
//	}
package strict

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// MaxNamed is how many findings an Error names.
const MaxNamed = 8

// Error lists what a message holds that this program does not know.
type Error struct {
	Findings []Finding // the first MaxNamed, in the order of the message's fields
	More     int       // how many more there are
}

// Finding is one unknown field or one unknown enum value.
type Finding struct {
	Path  string                   // the message or enum field, such as "entries[2].image.run"; empty at the top
	Field protoreflect.FieldNumber // the number of the unknown field; 0 for an enum value
	Enum  protoreflect.FullName    // the enum, when a known field holds an unknown value of it
	Value protoreflect.EnumNumber  // that value
}

// String returns the finding in a few words: "run.sandbox: unknown field 9".
func (f Finding) String() string {
	what := fmt.Sprintf("unknown field %d", f.Field)
	if f.Enum != "" {
		what = fmt.Sprintf("unknown value %d of %s", f.Value, f.Enum)
	}
	if f.Path == "" {
		return what
	}
	return f.Path + ": " + what
}

// Error returns the findings in one line.
func (e *Error) Error() string {
	parts := make([]string, 0, len(e.Findings)+1)
	for _, f := range e.Findings {
		parts = append(parts, f.String())
	}
	if e.More > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", e.More))
	}
	return strings.Join(parts, "; ")
}

// Check returns an *Error when m holds a field or an enum value that this program does not
// know, anywhere in it, and nil otherwise. A nil message holds nothing.
func Check(m proto.Message) error {
	if m == nil {
		return nil
	}
	var w walk
	w.message("", m.ProtoReflect())
	if len(w.found.Findings) == 0 {
		return nil
	}
	return &w.found
}

// walk gathers findings.
type walk struct{ found Error }

func (w *walk) add(f Finding) {
	if len(w.found.Findings) == MaxNamed {
		w.found.More++
		return
	}
	w.found.Findings = append(w.found.Findings, f)
}

// message looks at one message and at everything below it, in the order of its fields.
func (w *walk) message(path string, m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		if fd := fields.Get(i); m.Has(fd) {
			w.field(join(path, string(fd.Name())), fd, m.Get(fd))
		}
	}
	w.unknown(path, m.GetUnknown())
}

func (w *walk) field(path string, fd protoreflect.FieldDescriptor, v protoreflect.Value) {
	switch {
	case fd.IsMap():
		w.entries(path, fd.MapValue(), v.Map())
	case fd.IsList():
		for i, l := 0, v.List(); i < l.Len() && walked(fd); i++ {
			w.value(fmt.Sprintf("%s[%d]", path, i), fd, l.Get(i))
		}
	default:
		w.value(path, fd, v)
	}
}

// entries looks at the values of a map, in the order of its keys.
func (w *walk) entries(path string, fd protoreflect.FieldDescriptor, m protoreflect.Map) {
	if !walked(fd) {
		return
	}
	var keys []protoreflect.MapKey
	for k := range m.Range {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b protoreflect.MapKey) int { return cmp.Compare(a.String(), b.String()) })
	for _, k := range keys {
		w.value(path+"["+strconv.Quote(k.String())+"]", fd, m.Get(k))
	}
}

// walked reports whether values of the field can hold something unknown.
func walked(fd protoreflect.FieldDescriptor) bool { return fd.Message() != nil || fd.Enum() != nil }

func (w *walk) value(path string, fd protoreflect.FieldDescriptor, v protoreflect.Value) {
	if fd.Message() != nil {
		w.message(path, v.Message())
	}
	if e := fd.Enum(); e != nil && e.Values().ByNumber(v.Enum()) == nil {
		w.add(Finding{Path: path, Enum: e.FullName(), Value: v.Enum()})
	}
}

// unknown adds the numbers of the unknown fields of one message, each once, in ascending
// order. The decoder has checked the bytes, so each field can be read.
func (w *walk) unknown(path string, raw protoreflect.RawFields) {
	var numbers []protoreflect.FieldNumber
	for len(raw) > 0 {
		number, _, n := protowire.ConsumeField(raw)
		if n < 0 {
			number, n = 0, len(raw) // set by hand and not an encoding: unknown as a whole
		}
		numbers = append(numbers, number)
		raw = raw[n:]
	}
	slices.Sort(numbers)
	for _, n := range slices.Compact(numbers) {
		w.add(Finding{Path: path, Field: n})
	}
}

// join returns the path of a field below path.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
