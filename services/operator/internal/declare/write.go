package declare

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/pkg/metadata"
	"github.com/garrison-fleet/garrison/pkg/selection"
)

// Write returns a set as one file: the sections in the order of Kinds, the objects by name.
func Write(set *Set) ([]byte, error) {
	sorted := slices.Clone(set.Objects)
	slices.SortStableFunc(sorted, func(a, b *Object) int { return cmp.Compare(a.Name, b.Name) })
	file := mapping()
	add(file, "format", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: format})
	for _, k := range Kinds {
		section := mapping()
		for _, o := range sorted {
			if o.Kind != k || k == Defaults { // a default is a part of its environment
				continue
			}
			n, err := messageNode(o.Record.ProtoReflect(), k.fields())
			if err != nil {
				return nil, fmt.Errorf("%s %q: %w", k.Word, o.Name, err)
			}
			if k == Environments {
				err = errors.Join(environmentNode(n, o.Name, sorted), addWanted(n, o.Name, set.Wanted))
			}
			if err != nil {
				return nil, fmt.Errorf("%s %q: %w", k.Word, o.Name, err)
			}
			add(section, o.Name, n)
		}
		if len(section.Content) > 0 {
			add(file, k.Section, section)
		}
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(file); err != nil {
		return nil, err
	}
	return b.Bytes(), e.Close()
}

func mapping() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"} }

func text(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	if strings.ContainsAny(s, "\n\t\"'\\") { // the block form of YAML does not keep every text
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

func add(m *yaml.Node, key string, value *yaml.Node) { m.Content = append(m.Content, text(key), value) }

// messageNode returns the fields of a message that are set.
func messageNode(m protoreflect.Message, fields []protoreflect.FieldDescriptor) (*yaml.Node, error) {
	out := mapping()
	for _, f := range fields {
		if !m.Has(f) {
			continue
		}
		n, err := fieldNode(m.Get(f), f)
		if err != nil {
			return nil, err
		}
		add(out, f.JSONName(), n)
	}
	return out, nil
}

func fieldNode(v protoreflect.Value, f protoreflect.FieldDescriptor) (*yaml.Node, error) {
	switch {
	case f.IsList():
		out := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for i := range v.List().Len() {
			n, err := valueNode(v.List().Get(i), f)
			if err != nil {
				return nil, err
			}
			out.Content = append(out.Content, n)
		}
		return out, nil
	case f.IsMap():
		out := mapping()
		for _, key := range keysOf(v.Map()) {
			n, err := entryNode(v.Map().Get(key), f)
			if err != nil {
				return nil, err
			}
			add(out, key.String(), n)
		}
		return out, nil
	}
	return valueNode(v, f)
}

// entryNode returns a value of a map.
func entryNode(v protoreflect.Value, f protoreflect.FieldDescriptor) (*yaml.Node, error) {
	if isMetadata(f) && metadata.IsNested(v.String()) {
		return jsonNode(v.String())
	}
	return valueNode(v, f.MapValue())
}

// keysOf returns the keys of a map in their order.
func keysOf(m protoreflect.Map) (keys []protoreflect.MapKey) {
	m.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, k)
		return true
	})
	slices.SortFunc(keys, func(a, b protoreflect.MapKey) int { return cmp.Compare(a.String(), b.String()) })
	return keys
}

func valueNode(v protoreflect.Value, f protoreflect.FieldDescriptor) (*yaml.Node, error) {
	switch f.Kind() {
	case protoreflect.StringKind:
		return text(v.String()), nil
	case protoreflect.EnumKind:
		return text(word(f.Enum(), v.Enum())), nil
	case protoreflect.BytesKind:
		return text(base64.StdEncoding.EncodeToString(v.Bytes())), nil
	case protoreflect.BoolKind, protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.Int32Kind,
		protoreflect.DoubleKind:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: v.String()}, nil
	case protoreflect.MessageKind:
		return nestedNode(v.Message())
	}
	return nil, fmt.Errorf("field %s has the kind %s, which no file can have", f.FullName(), f.Kind())
}

func nestedNode(m protoreflect.Message) (*yaml.Node, error) {
	switch m.Descriptor().FullName() {
	case "google.protobuf.Duration":
		return text(m.Interface().(*durationpb.Duration).AsDuration().String()), nil
	case conditionName:
		return text(selection.Text([]*intentv1.Condition{m.Interface().(*intentv1.Condition)})), nil
	case "google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue":
		data, err := protojson.Marshal(m.Interface())
		if err != nil {
			return nil, err
		}
		var n yaml.Node
		if err := yaml.Unmarshal(data, &n); err != nil {
			return nil, err
		}
		return plainStyle(n.Content[0]), nil
	}
	return messageNode(m, fieldsOf(m))
}

// plainStyle returns JSON that was read as YAML in the style of the rest of the file, with sorted keys.
func plainStyle(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		return text(n.Value)
	}
	n.Style = 0
	for i, c := range n.Content {
		n.Content[i] = plainStyle(c)
	}
	if n.Kind == yaml.MappingNode {
		sortPairs(n)
	}
	return n
}

func sortPairs(n *yaml.Node) {
	type pair struct{ key, value *yaml.Node }
	var pairs []pair
	for i := 0; i+1 < len(n.Content); i += 2 {
		pairs = append(pairs, pair{n.Content[i], n.Content[i+1]})
	}
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Compare(a.key.Value, b.key.Value) })
	n.Content = n.Content[:0]
	for _, p := range pairs {
		n.Content = append(n.Content, p.key, p.value)
	}
}

func fieldsOf(m protoreflect.Message) (out []protoreflect.FieldDescriptor) {
	for i := range m.Descriptor().Fields().Len() {
		out = append(out, m.Descriptor().Fields().Get(i))
	}
	return out
}
