package strict

import (
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Knows reports whether this program knows every field and enum value of an encoded message. It decodes nothing, so it
// costs a fraction of Check, which names what is not known; a false answer is final only after Check.
func Knows(data []byte, md protoreflect.MessageDescriptor) bool {
	return formOf(md).knows(data, MaxDepth)
}

// form is what the encoding of a message may hold.
type form struct{ fields []element } // by their number

// element is what one field of an encoding may hold.
type element struct {
	wire    protowire.Type
	known   bool
	packed  bool           // several values may stand in one run of bytes
	message *form          // of a message
	values  map[int32]bool // of an enum
}

func (f *form) knows(data []byte, depth int) bool {
	for len(data) > 0 {
		number, wire, n := protowire.ConsumeTag(data)
		if n < 0 || depth == 0 || int(number) >= len(f.fields) {
			return false
		}
		e, value := &f.fields[number], data[n:]
		if n = protowire.ConsumeFieldValue(number, wire, value); n < 0 || !e.knows(wire, value[:n], depth) {
			return false
		}
		data = value[n:]
	}
	return true
}

func (e *element) knows(wire protowire.Type, value []byte, depth int) bool {
	switch {
	case !e.known || wire != e.wire && (!e.packed || wire != protowire.BytesType):
		return false
	case e.message == nil && e.values == nil:
		return true
	}
	if wire == protowire.BytesType {
		value, _ = protowire.ConsumeBytes(value)
	}
	if e.message != nil {
		return e.message.knows(value, depth-1)
	}
	for len(value) > 0 {
		v, n := protowire.ConsumeVarint(value)
		if n < 0 || !e.values[int32(v)] {
			return false
		}
		value = value[n:]
	}
	return true
}

// forms are the forms that were made, by the full name of the message.
var forms struct {
	sync.RWMutex
	made map[protoreflect.FullName]*form
}

func formOf(md protoreflect.MessageDescriptor) *form {
	forms.RLock()
	f := forms.made[md.FullName()]
	forms.RUnlock()
	if f != nil {
		return f
	}
	forms.Lock()
	defer forms.Unlock()
	if forms.made == nil {
		forms.made = map[protoreflect.FullName]*form{}
	}
	return makeForm(md)
}

// makeForm makes the forms of a message and of all that it holds. The caller holds the lock.
func makeForm(md protoreflect.MessageDescriptor) *form {
	if f := forms.made[md.FullName()]; f != nil {
		return f
	}
	f := &form{}
	forms.made[md.FullName()] = f // before its fields: a message may contain itself
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		for len(f.fields) <= int(fd.Number()) {
			f.fields = append(f.fields, element{})
		}
		wire := wireOf(fd.Kind())
		e := element{known: true, wire: wire, packed: fd.IsList() && wire != protowire.BytesType}
		if fd.Message() != nil {
			e.message = makeForm(fd.Message())
		}
		if fd.Enum() != nil {
			e.values = map[int32]bool{}
			for j := range fd.Enum().Values().Len() {
				e.values[int32(fd.Enum().Values().Get(j).Number())] = true
			}
		}
		f.fields[fd.Number()] = e
	}
	return f
}

// wireOf returns how a value is encoded. Groups are not in the contract.
func wireOf(k protoreflect.Kind) protowire.Type {
	switch k {
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		return protowire.BytesType
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		return protowire.Fixed32Type
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		return protowire.Fixed64Type
	case protoreflect.GroupKind:
		return protowire.StartGroupType
	default:
		return protowire.VarintType
	}
}
