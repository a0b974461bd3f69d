package declare

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/garrison-fleet/garrison/pkg/listing"
)

// leaf is one value that an owner declares: a field, or one value of a map.
type leaf struct {
	field protoreflect.FieldDescriptor
	key   protoreflect.MapKey // of a map
}

// leafAt returns the leaf of a path such as description or metadata.level; false when no field has the name.
func (k *Kind) leafAt(path string) (leaf, bool) {
	name, key, isValue := strings.Cut(path, ".")
	for _, f := range k.fields() {
		if f.JSONName() == name && f.IsMap() == isValue {
			return leaf{f, protoreflect.ValueOfString(key).MapKey()}, true
		}
	}
	return leaf{}, false
}

func (l leaf) get(m protoreflect.Message) (v protoreflect.Value, has bool) {
	if !m.IsValid() || !m.Has(l.field) {
		return v, false
	}
	if !l.field.IsMap() {
		return m.Get(l.field), true
	}
	v = m.Get(l.field).Map().Get(l.key)
	return v, v.IsValid()
}

func (l leaf) set(m protoreflect.Message, v protoreflect.Value) {
	if l.field.IsMap() {
		m.Mutable(l.field).Map().Set(l.key, v)
		return
	}
	m.Set(l.field, v)
}

func (l leaf) clear(m protoreflect.Message) {
	if !m.Has(l.field) {
		return
	}
	if !l.field.IsMap() {
		m.Clear(l.field)
		return
	}
	m.Mutable(l.field).Map().Clear(l.key)
}

// textOf returns the value of a leaf as one text, "" for none. Equal values have equal texts.
func (l leaf) textOf(m protoreflect.Message) string {
	v, has := l.get(m)
	if !has {
		return ""
	}
	f := l.field
	if f.IsMap() {
		f = f.MapValue()
	}
	n, err := fieldNode(v, f)
	if err != nil {
		return err.Error() // the kind of the field is unknown: the same text for every value, so that none is changed
	}
	if n.Kind == yaml.ScalarNode {
		return n.Value
	}
	flow(n)
	data, err := yaml.Marshal(n)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(data))
}

func flow(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode {
		n.Style = yaml.FlowStyle
	}
	for _, c := range n.Content {
		flow(c)
	}
}

// digest returns the digest of a text, as an owner keeps it. An empty value has one too.
func digest(text string) uint64 {
	sum := sha256.Sum256([]byte(text))
	return binary.BigEndian.Uint64(sum[:8])
}

// word returns the word of an enum's value, as every table prints it: KIND_DAEMON is daemon.
func word(d protoreflect.EnumDescriptor, n protoreflect.EnumNumber) string {
	if v := d.Values().ByNumber(n); v != nil && v.Index() > 0 {
		return listing.Words(d)[v.Index()-1]
	}
	return ""
}

// enumNumber returns the value that a word stands for. The empty word is the unspecified value.
func enumNumber(d protoreflect.EnumDescriptor, text string) (protoreflect.EnumNumber, bool) {
	if at := slices.Index(listing.Words(d), text); at >= 0 {
		return d.Values().Get(at + 1).Number(), true
	}
	return 0, text == ""
}
