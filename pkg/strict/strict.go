// Package strict reads messages from outside: it bounds what decoding one may cost, and reports
// what it holds that this program does not know: fields and enum values of a newer contract.
//
// Protocol Buffers keep unknown fields without an error. A receiver that acts on such a message
// does only part of the request. Receivers check a message before they act on it, and refuse it.
//
// Guarantees:
//
//  1. Check walks the whole message: nested messages, lists, maps and groups.
//  2. Check returns nil for every message that has only fields and enum values of the
//     contract that this program was built with.
//  3. The error names each finding by its path: field names, list indexes, map keys, and the
//     number of the unknown field. It names MaxNamed of them at most and counts the rest.
//  4. Unmarshal and UnmarshalJSON refuse a message before they decode it when it is nested deeper
//     than MaxDepth, or has more elements than its size allows: 1 MiB can decode to over 100.
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
	w.message(m.ProtoReflect())
	if len(w.found.Findings) == 0 {
		return nil
	}
	return &w.found
}

// walk gathers findings.
type walk struct {
	path  []segment // to the message or the field that is looked at
	found Error
}

// segment is one part of a path: the name of a field, the index in a list, or the key of a map.
type segment struct {
	name  string
	key   protoreflect.MapKey
	index int
	kind  segmentKind
}

type segmentKind uint8

const (
	named segmentKind = iota
	indexed
	keyed
)

// String returns the segment as it stands in a path.
func (s segment) String() string {
	switch s.kind {
	case indexed:
		return "[" + strconv.Itoa(s.index) + "]"
	case keyed:
		return "[" + strconv.Quote(s.key.String()) + "]"
	}
	return s.name
}

// within calls look with a segment added to the path.
func (w *walk) within(s segment, look func()) {
	w.path = append(w.path, s)
	look()
	w.path = w.path[:len(w.path)-1]
}

// here returns the path. It is written only where something is found: a large message has a path for each element.
func (w *walk) here() string {
	var b strings.Builder
	for i, s := range w.path {
		if i > 0 && s.kind == named {
			b.WriteByte('.')
		}
		b.WriteString(s.String())
	}
	return b.String()
}

func (w *walk) add(f Finding) {
	if len(w.found.Findings) == MaxNamed {
		w.found.More++
		return
	}
	f.Path = w.here()
	w.found.Findings = append(w.found.Findings, f)
}

// message looks at one message and at everything below it, in the order of its fields.
func (w *walk) message(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		if fd := fields.Get(i); walked(fd) && m.Has(fd) {
			w.within(segment{name: string(fd.Name())}, func() { w.field(fd, m.Get(fd)) })
		}
	}
	w.unknown(m.GetUnknown())
}

func (w *walk) field(fd protoreflect.FieldDescriptor, v protoreflect.Value) {
	switch {
	case fd.IsMap():
		w.entries(fd.MapValue(), v.Map())
	case fd.IsList():
		for i, l := 0, v.List(); i < l.Len(); i++ {
			w.within(segment{kind: indexed, index: i}, func() { w.value(fd, l.Get(i)) })
		}
	default:
		w.value(fd, v)
	}
}

// entries looks at the values of a map, in the order of its keys.
func (w *walk) entries(fd protoreflect.FieldDescriptor, m protoreflect.Map) {
	var keys []protoreflect.MapKey
	for k := range m.Range {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b protoreflect.MapKey) int { return cmp.Compare(a.String(), b.String()) })
	for _, k := range keys {
		w.within(segment{kind: keyed, key: k}, func() { w.value(fd, m.Get(k)) })
	}
}

// walked reports whether values of the field can hold something unknown.
func walked(fd protoreflect.FieldDescriptor) bool {
	if fd.IsMap() {
		fd = fd.MapValue()
	}
	return fd.Message() != nil || fd.Enum() != nil
}

func (w *walk) value(fd protoreflect.FieldDescriptor, v protoreflect.Value) {
	if fd.Message() != nil {
		w.message(v.Message())
	}
	if e := fd.Enum(); e != nil && e.Values().ByNumber(v.Enum()) == nil {
		w.add(Finding{Enum: e.FullName(), Value: v.Enum()})
	}
}

// unknown adds the numbers of the unknown fields of one message, each once, in ascending
// order. The decoder has checked the bytes, so each field can be read.
func (w *walk) unknown(raw protoreflect.RawFields) {
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
		w.add(Finding{Field: n})
	}
}
