package declare

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/listing"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/selector"
)

// object reads the fields of an object.
func (r *reader) object(o *Object, n *yaml.Node) error {
	what := o.Kind.Word + " " + strconv.Quote(o.Name)
	seen := func(f protoreflect.FieldDescriptor, v *yaml.Node) {
		if !f.IsMap() {
			o.Paths[f.JSONName()] = true
			return
		}
		for i := 0; i+1 < len(v.Content); i += 2 {
			o.Paths[f.JSONName()+"."+v.Content[i].Value] = true
		}
	}
	return r.message(n, what, o.Record.ProtoReflect(), o.Kind.fields(), seen)
}

// message reads a mapping into a message; seen receives each field that it has.
func (r *reader) message(
	n *yaml.Node, what string, m protoreflect.Message, fields []protoreflect.FieldDescriptor,
	seen func(protoreflect.FieldDescriptor, *yaml.Node),
) error {
	return r.pairs(n, what, func(key, value *yaml.Node) error {
		at := slices.IndexFunc(fields, func(f protoreflect.FieldDescriptor) bool { return f.JSONName() == key.Value })
		if at < 0 {
			var known []string
			for _, f := range fields {
				known = append(known, f.JSONName())
			}
			return r.unknownKey(key, what, known)
		}
		if o := fields[at].ContainingOneof(); o != nil && !o.IsSynthetic() && m.WhichOneof(o) != nil {
			return r.wrong(key, "%s has both %s and %s; only one of them may be there", what,
				m.WhichOneof(o).JSONName(), key.Value)
		}
		seen(fields[at], value)
		return r.field(value, what+" "+key.Value, m, fields[at])
	})
}

// field reads one field: a list, a map or a single value.
func (r *reader) field(n *yaml.Node, what string, m protoreflect.Message, f protoreflect.FieldDescriptor) error {
	switch {
	case f.IsList():
		if n.Kind != yaml.SequenceNode {
			return r.wrong(n, "%s is not a list", what)
		}
		list := m.Mutable(f).List()
		for _, c := range n.Content {
			v, err := r.value(c, what, f, list.NewElement)
			if err != nil {
				return err
			}
			list.Append(v)
		}
		return nil
	case f.IsMap():
		to := m.Mutable(f).Map()
		return r.pairs(n, what, func(key, value *yaml.Node) error {
			v, err := r.entry(value, what+"."+key.Value, f, to.NewValue)
			if err == nil {
				to.Set(protoreflect.ValueOfString(key.Value).MapKey(), v)
			}
			return err
		})
	}
	v, err := r.value(n, what, f, func() protoreflect.Value { return m.NewField(f) })
	if err == nil {
		m.Set(f, v)
	}
	return err
}

// entry reads a value of a map.
func (r *reader) entry(
	n *yaml.Node, what string, f protoreflect.FieldDescriptor, blank func() protoreflect.Value,
) (v protoreflect.Value, err error) {
	if !isMetadata(f) || !isJSON(n) {
		return r.value(n, what, f.MapValue(), blank)
	}
	text, err := readJSON(n)
	if err != nil {
		return v, r.wrong(n, "%s: %v", what, err)
	}
	return protoreflect.ValueOfString(text), nil
}

// value reads a single value of the kind of a field.
func (r *reader) value(
	n *yaml.Node, what string, f protoreflect.FieldDescriptor, blank func() protoreflect.Value,
) (v protoreflect.Value, err error) {
	if f.Kind() == protoreflect.MessageKind {
		v = blank()
		return v, r.nested(n, what, v.Message())
	}
	if n.Tag == jsonTag {
		return v, r.wrong(n, "the tag %s is not accepted; it is for values of metadata", n.Tag)
	}
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return v, r.wrong(n, "%s is not a single value", what)
	}
	if v, ok := scalar(n, f); ok {
		return v, nil
	}
	if f.Kind() == protoreflect.EnumKind {
		return v, r.wrong(n, "%s: %q is not known (want %s)", what, n.Value,
			strings.Join(listing.Words(f.Enum()), ", "))
	}
	return v, r.wrong(n, "%s: %q is not a value of the kind %s", what, n.Value, f.Kind())
}

// scalar parses the text of a node as the kind of a field. A text may look like a number or a truth value.
func scalar(n *yaml.Node, f protoreflect.FieldDescriptor) (v protoreflect.Value, ok bool) {
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(n.Value), true
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(n.Value == "true"), n.Value == "true" || n.Value == "false"
	case protoreflect.EnumKind:
		number, ok := enumNumber(f.Enum(), n.Value)
		return protoreflect.ValueOfEnum(number), ok
	case protoreflect.Uint32Kind:
		x, err := strconv.ParseUint(n.Value, 10, 32)
		return protoreflect.ValueOfUint32(uint32(x)), err == nil
	case protoreflect.Uint64Kind:
		x, err := strconv.ParseUint(n.Value, 10, 64)
		return protoreflect.ValueOfUint64(x), err == nil
	case protoreflect.Int32Kind:
		x, err := strconv.ParseInt(n.Value, 10, 32)
		return protoreflect.ValueOfInt32(int32(x)), err == nil
	case protoreflect.DoubleKind:
		x, err := strconv.ParseFloat(n.Value, 64)
		return protoreflect.ValueOfFloat64(x), err == nil
	case protoreflect.BytesKind:
		x, err := base64.StdEncoding.DecodeString(n.Value)
		return protoreflect.ValueOfBytes(x), err == nil
	}
	return v, false
}

// nested reads a message inside of a record: a duration as 90s, any JSON as it is, others by their fields.
func (r *reader) nested(n *yaml.Node, what string, m protoreflect.Message) error {
	switch name := m.Descriptor().FullName(); name {
	case "google.protobuf.Duration":
		d, err := time.ParseDuration(n.Value)
		if err != nil || n.Kind != yaml.ScalarNode {
			return r.wrong(n, "%s: %q is not a duration such as 90s, 10m or 2h", what, n.Value)
		}
		proto.Merge(m.Interface(), durationpb.New(d))
		return nil
	case conditionName:
		return r.condition(n, what, m)
	case "google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue":
		var b strings.Builder
		err := writeJSON(&b, n)
		if err == nil {
			err = protojson.Unmarshal([]byte(b.String()), m.Interface())
		}
		if err != nil {
			return r.wrong(n, "%s: %v", what, err)
		}
		return nil
	}
	return r.message(n, what, m, fieldsOf(m), func(protoreflect.FieldDescriptor, *yaml.Node) {})
}

// conditionName is the message that a file has as text, such as os=linux.
var conditionName = (&intentv1.Condition{}).ProtoReflect().Descriptor().FullName()

// labelRule reads a rule. It is set as a whole, so a file that declares one has its conditions and a label.
func (r *reader) labelRule(o *Object, n *yaml.Node) error {
	if err := r.object(o, n); err != nil {
		return err
	}
	rule := o.Record.(interface {
		GetWhen() []*intentv1.Condition
		GetLabels() map[string]string
	})
	if len(rule.GetWhen()) == 0 || len(rule.GetLabels()) == 0 {
		return r.wrong(n, "label rule %q needs the keys when and labels, both with a value", o.Name)
	}
	return nil
}

// condition reads one condition, as --when of garrison label-rule set has it.
func (r *reader) condition(n *yaml.Node, what string, m protoreflect.Message) error {
	if n.Kind != yaml.ScalarNode {
		return r.wrong(n, "%s: a condition is a text such as os=linux", what)
	}
	read, err := selector.Where(what, []string{n.Value})
	if err != nil {
		return r.wrong(n, "%v", err)
	}
	if len(read) != 1 {
		return r.wrong(n, "%s: %q has %d conditions; write each as an element of its own", what, n.Value, len(read))
	}
	proto.Merge(m.Interface(), read[0])
	return nil
}
