package describe

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// known are the messages whose form in JSON is not that of their fields.
var known = map[protoreflect.FullName]Object{
	"google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
	"google.protobuf.Duration":  {"type": "string", "pattern": `^-?[0-9]+(\.[0-9]+)?s$`},
	"google.protobuf.FieldMask": {"type": "string"},
	"google.protobuf.Struct":    {"type": "object"},
	"google.protobuf.Value":     {},
	"google.protobuf.Any": {
		"type": "object", "properties": Object{"@type": Object{"type": "string"}}, "required": []any{"@type"},
	},
}

// ref returns a reference to the schema of a message, and adds the schema.
func (d document) ref(m protoreflect.MessageDescriptor) Object {
	if is, ok := known[m.FullName()]; ok {
		return is
	}
	name := string(m.FullName())
	if d.schemas[name] == nil {
		fields := Object{}
		d.schemas[name] = Object{
			"type": "object", "description": comment(m), "properties": fields, "additionalProperties": false,
		}
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			fields[f.JSONName()] = d.field(f)
		}
	}
	return Object{"$ref": "#/components/schemas/" + name}
}

// field returns the schema of a field.
func (d document) field(f protoreflect.FieldDescriptor) Object {
	is := Object{}
	switch {
	case f.IsMap():
		is = Object{"type": "object", "additionalProperties": d.value(f.MapValue())}
	case f.IsList():
		is = Object{"type": "array", "items": d.value(f)}
	default:
		for key, value := range d.value(f) {
			is[key] = value
		}
	}
	text := comment(f)
	if one := f.ContainingOneof(); one != nil && !one.IsSynthetic() {
		text = strings.TrimSpace(text + " At most one of " + names(one.Fields()) + " is set.")
	}
	is["description"] = text
	return is
}

func names(fields protoreflect.FieldDescriptors) string {
	var out []string
	for i := range fields.Len() {
		out = append(out, fields.Get(i).JSONName())
	}
	return strings.Join(out, ", ")
}

// value returns the schema of one value of a field.
func (d document) value(f protoreflect.FieldDescriptor) Object {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return Object{"type": "boolean"}
	case protoreflect.StringKind:
		return Object{"type": "string"}
	case protoreflect.BytesKind:
		return Object{"type": "string", "contentEncoding": "base64"}
	case protoreflect.EnumKind:
		return d.enum(f.Enum())
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return d.ref(f.Message())
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return Object{"type": "number"}
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind, protoreflect.Uint64Kind,
		protoreflect.Fixed64Kind:
		return Object{"type": "string", "pattern": "^-?[0-9]+$"}
	}
	return Object{"type": "integer"}
}

// enum returns a reference to the schema of an enum, and adds the schema.
func (d document) enum(e protoreflect.EnumDescriptor) Object {
	name := string(e.FullName())
	if d.schemas[name] == nil {
		var values []any
		for i := range e.Values().Len() {
			values = append(values, string(e.Values().Get(i).Name()))
		}
		d.schemas[name] = Object{"type": "string", "description": comment(e), "enum": values}
	}
	return Object{"$ref": "#/components/schemas/" + name}
}
