package openapi_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/garrison-fleet/garrison/services/gateway/internal/openapi"
	"github.com/garrison-fleet/garrison/services/gateway/internal/rpc"
)

// schemas compiles the schemas of the document, as OpenAPI 3.1 takes them: JSON Schema 2020-12.
func schemas(t *testing.T) func(protoreflect.FullName) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(openapi.Document))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource("openapi.json", document); err != nil {
		t.Fatal(err)
	}
	return func(name protoreflect.FullName) *jsonschema.Schema {
		s, err := c.Compile("openapi.json#/components/schemas/" + string(name))
		if err != nil {
			t.Fatalf("the schema of %s: %v", name, err)
		}
		return s
	}
}

// A request and an answer with every field set fit the schema of their message, and one with another field does not.
func TestTheSchemasAreThoseOfTheMessages(t *testing.T) {
	t.Parallel()
	schema, methods := schemas(t), 0
	for _, served := range rpc.AllServed() {
		for i := range served.Descriptor.Methods().Len() {
			m := served.Descriptor.Methods().Get(i)
			if m.IsStreamingServer() {
				continue
			}
			methods++
			fits(t, schema, m.Input())
			fits(t, schema, m.Output())
		}
	}
	if methods < 80 {
		t.Errorf("%d methods were checked, want all", methods)
	}
}

func fits(t *testing.T, schema func(protoreflect.FullName) *jsonschema.Schema, d protoreflect.MessageDescriptor) {
	t.Helper()
	known, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		t.Fatal(err)
	}
	m := known.New()
	fill(m, 0)
	text, err := protojson.Marshal(m.Interface())
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	s := schema(d.FullName())
	if err := s.Validate(value); err != nil {
		t.Errorf("%s does not fit its schema: %v\n%s", d.FullName(), err, text)
	}
	value.(map[string]any)["anotherField"] = true
	if s.Validate(value) == nil {
		t.Errorf("the schema of %s takes a field that the message does not have", d.FullName())
	}
}

// deepest is how deep messages in messages are filled.
const deepest = 4

// fill sets every field of a message; of a oneof, the last of them.
func fill(m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		message := f.Message() != nil && !f.IsMap()
		if strings.HasPrefix(string(m.Descriptor().FullName()), "google.protobuf.") || message && depth == deepest {
			continue
		}
		switch {
		case f.IsMap():
			key := protoreflect.ValueOfString("key").MapKey()
			if f.MapKey().Kind() != protoreflect.StringKind || f.MapValue().Message() != nil && depth == deepest {
				continue
			}
			m.Mutable(f).Map().Set(key, value(f.MapValue(), m.Mutable(f).Map().NewValue, depth))
		case f.IsList():
			list := m.Mutable(f).List()
			list.Append(value(f, list.NewElement, depth))
		default:
			m.Set(f, value(f, func() protoreflect.Value { return m.NewField(f) }, depth))
		}
	}
}

// value returns a value for a field.
func value(f protoreflect.FieldDescriptor, empty func() protoreflect.Value, depth int) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.MessageKind:
		v := empty()
		if holder, ok := v.Message().Interface().(interface{ MarshalFrom(proto.Message) error }); ok {
			_ = holder.MarshalFrom(known())
		}
		fill(v.Message(), depth+1)
		return v
	case protoreflect.EnumKind:
		last := f.Enum().Values().Get(f.Enum().Values().Len() - 1)
		return protoreflect.ValueOfEnum(last.Number())
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("text")
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte("bytes"))
	}
	return empty()
}

// known returns a message that an Any may hold.
func known() proto.Message {
	t, _ := protoregistry.GlobalTypes.FindMessageByName("garrison.api.v1.Page")
	return t.New().Interface()
}

func TestEveryMethodOfTheContractHasAPath(t *testing.T) {
	t.Parallel()
	var document struct {
		Paths map[string]map[string]struct{ Description string }
	}
	if err := json.Unmarshal(openapi.Document, &document); err != nil {
		t.Fatal(err)
	}
	for _, served := range rpc.AllServed() {
		for i := range served.Descriptor.Methods().Len() {
			m := served.Descriptor.Methods().Get(i)
			path := rpc.Procedure(m)
			if len(served.Names) > 1 {
				path = "/{service}" + path
			}
			at := document.Paths[path]
			if _, get := at["get"]; !m.IsStreamingServer() && (at["post"].Description == "" || get != rpc.Reads(m)) {
				t.Errorf("%s is described as %v; GET serves it: %v", path, at, rpc.Reads(m))
			}
		}
	}
	for path, verb := range map[string]string{"/events": "get", "/images/{digest}": "put"} {
		if document.Paths[path][verb].Description == "" {
			t.Errorf("%s is not described", path)
		}
	}
}
