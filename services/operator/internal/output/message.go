package output

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// exact is the largest whole number that every reader of JSON takes exactly: many read numbers as float64.
const exact = 1 << 53

// encodeMessage returns a message as a script wants it. It is protobuf's JSON, but an enum is its word, a large number
// is a number where JSON can hold it, a digest is sha256:HEX, nested metadata is JSON, and servers are counted
// by the name of their state. The rows of a list are there when there are none.
func encodeMessage(b *bytes.Buffer, m protoreflect.Message, rows protoreflect.FieldDescriptor) error {
	if m.Descriptor().ParentFile().Package() == "google.protobuf" {
		data, err := protojson.Marshal(m.Interface())
		if err != nil {
			return err
		}
		return json.Compact(b, data) // protojson varies its spacing on purpose
	}
	fields, before := m.Descriptor().Fields(), "{"
	for i := range fields.Len() {
		f := fields.Get(i)
		if !m.Has(f) && f != rows {
			continue
		}
		b.WriteString(before)
		encodeText(b, f.JSONName())
		b.WriteByte(':')
		if err := encodeField(b, f, m.Get(f)); err != nil {
			return err
		}
		before = ","
	}
	if before == "{" {
		b.WriteString(before)
	}
	b.WriteByte('}')
	return nil
}

func encodeField(b *bytes.Buffer, f protoreflect.FieldDescriptor, v protoreflect.Value) error {
	switch {
	case f.IsMap():
		return encodeMap(b, f, v.Map())
	case f.IsList():
		b.WriteByte('[')
		for i := range v.List().Len() {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := encodeValue(b, f, v.List().Get(i)); err != nil {
				return err
			}
		}
		b.WriteByte(']')
		return nil
	}
	return encodeValue(b, f, v)
}

// encodeMap writes a map with sorted keys.
func encodeMap(b *bytes.Buffer, f protoreflect.FieldDescriptor, m protoreflect.Map) error {
	values := make(map[string]protoreflect.Value, m.Len())
	m.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		key := k.String()
		if d := countedBy[f.FullName()]; d != nil {
			key = enumWord(d, protoreflect.EnumNumber(k.Uint()))
		}
		values[key] = v
		return true
	})
	b.WriteByte('{')
	for i, key := range slices.Sorted(maps.Keys(values)) {
		if i > 0 {
			b.WriteByte(',')
		}
		encodeText(b, key)
		b.WriteByte(':')
		if err := encodeValue(b, f.MapValue(), values[key]); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

// countedBy has the fields whose keys are the numbers of states.
var countedBy = map[protoreflect.FullName]protoreflect.EnumDescriptor{
	"garrison.rollout.v1.Wave.counts":         rolloutv1.TargetState(0).Descriptor(),
	"garrison.registry.v1.DefaultRow.servers": registryv1.DefaultState(0).Descriptor(),
}

func encodeValue(b *bytes.Buffer, f protoreflect.FieldDescriptor, v protoreflect.Value) error {
	switch value := v.Interface().(type) {
	case protoreflect.Message:
		return encodeMessage(b, value, nil)
	case protoreflect.EnumNumber:
		encodeText(b, enumWord(f.Enum(), value))
	case string:
		encodeString(b, value)
	case []byte:
		encodeText(b, bytesText(f, value))
	case int64:
		encodeNumber(b, strconv.FormatInt(value, 10), -exact <= value && value <= exact)
	case uint64:
		encodeNumber(b, strconv.FormatUint(value, 10), value <= exact)
	default: // smaller numbers and truth values
		data, err := json.Marshal(value)
		if err != nil { // JSON has no NaN
			data = []byte(strconv.Quote(fmt.Sprint(value)))
		}
		b.Write(data)
	}
	return nil
}

// enumWord returns the word of an enum's value; "" for zero, and unknown-9 for one that a newer service sends.
func enumWord(d protoreflect.EnumDescriptor, n protoreflect.EnumNumber) string {
	switch v := d.Values().ByNumber(n); {
	case v == nil:
		return fmt.Sprintf("unknown-%d", n)
	case n == 0:
		return ""
	default:
		return listing.WordOf(d, string(v.Name()))
	}
}

// encodeString writes a text, or the JSON that it holds.
func encodeString(b *bytes.Buffer, text string) {
	if strings.HasPrefix(text, metadata.Mark) && json.Valid([]byte(metadata.Text(text))) {
		b.WriteString(metadata.Text(text))
		return
	}
	encodeText(b, text)
}

// encodeText writes a text without the escapes that only HTML needs.
func encodeText(b *bytes.Buffer, text string) {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text)      // neither a buffer nor a text fails
	b.Truncate(b.Len() - 1) // its line feed
}

// encodeNumber writes a number, as a text when readers would round it.
func encodeNumber(b *bytes.Buffer, digits string, fits bool) {
	if !fits {
		digits = `"` + digits + `"`
	}
	b.WriteString(digits)
}

func bytesText(f protoreflect.FieldDescriptor, data []byte) string {
	name := strings.TrimSuffix(string(f.Name()), "s")
	if strings.HasSuffix(name, "digest") {
		return "sha256:" + hex.EncodeToString(data)
	}
	return base64.StdEncoding.EncodeToString(data)
}
