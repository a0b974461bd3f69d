package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"sigs.k8s.io/yaml"

	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	"github.com/garrison-fleet/garrison/pkg/page"
	"github.com/garrison-fleet/garrison/pkg/visible"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// Encode returns a value as compact JSON with stable spacing, without characters that steer a terminal. Of a message,
// nested metadata is JSON, and a rollout counts its servers by the name of their state.
func Encode(value any) ([]byte, error) {
	m, ok := value.(proto.Message)
	if !ok {
		data, err := json.Marshal(value)
		return visible.JSON(data), err
	}
	data, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	data = withEmptyList(data, m.ProtoReflect())
	var b bytes.Buffer
	err = json.Compact(&b, data) // protojson varies its spacing on purpose
	return visible.JSON(plain(b.Bytes())), err
}

// PrintDocument prints one value as JSON or YAML, or what the filter makes of it.
func (p *Printer) PrintDocument(format string, value any) error {
	data, err := Encode(value)
	if err != nil {
		return err
	}
	w := p.Out
	if p.Filter != nil {
		return p.filter(data)
	}
	if format == FormatYAML {
		text, err := yaml.JSONToYAML(data)
		if err == nil && !strings.ContainsFunc(string(text), visible.Steers) {
			_, err = w.Write(text)
			return err
		}
		// YAML has no plain form of such a character, and JSON is YAML.
	}
	var b bytes.Buffer
	if err := json.Indent(&b, data, "", "  "); err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, b.String())
	return err
}

func printLines[T any](w io.Writer, rows []T) error {
	for _, r := range rows {
		data, err := Encode(r)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s\n", data); err != nil {
			return err
		}
	}
	return nil
}

// withEmptyList adds the rows of a list without any to its JSON, so that a script can iterate over them.
func withEmptyList(data []byte, m protoreflect.Message) []byte {
	f := page.RowsField(m)
	if f == nil || m.Has(f) {
		return data
	}
	rows := fmt.Sprintf("%q:[]}", f.JSONName())
	if before := bytes.TrimSuffix(data, []byte("}")); len(before) > 1 {
		return append(append(before, ','), rows...)
	}
	return []byte("{" + rows)
}

// RowsOf returns the rows of a list response.
func RowsOf[T proto.Message](whole proto.Message) []T {
	list := whole.ProtoReflect().Get(page.RowsField(whole.ProtoReflect())).List()
	rows := make([]T, list.Len())
	for i := range rows {
		rows[i] = list.Get(i).Message().Interface().(T)
	}
	return rows
}

// setRows replaces the rows of a list response, after they were sorted or cut.
func setRows[T any](whole any, rows []T) {
	m, ok := whole.(proto.Message)
	if !ok {
		return
	}
	f := page.RowsField(m.ProtoReflect())
	if f == nil {
		return
	}
	list := m.ProtoReflect().Mutable(f).List()
	list.Truncate(0)
	for _, r := range rows {
		list.Append(protoreflect.ValueOfMessage(any(r).(proto.Message).ProtoReflect()))
	}
}

// ShowBare prints the whole message in JSON and YAML, and in other formats only one text of it, ready to redirect to a
// file.
func ShowBare(p *Printer, whole proto.Message, text string) error {
	switch {
	case p.Format == FormatJSON || p.Format == FormatYAML || p.Filter != nil:
		return p.PrintDocument(p.Format, whole)
	case p.Format == FormatJSONL:
		return printLines(p.Out, []proto.Message{whole})
	}
	_, err := fmt.Fprintln(p.Out, visible.Text(text))
	return err
}

// ShowDocument prints one value that has no columns: whole in JSON and YAML, on a line in JSON lines, and in other
// formats as the given text.
func ShowDocument(p *Printer, value any, text string) error {
	switch {
	case p.Format == FormatJSON || p.Format == FormatYAML || p.Filter != nil:
		return p.PrintDocument(p.Format, value)
	case p.Format == FormatJSONL:
		return printLines(p.Out, []any{value})
	}
	paint := p.Paint && Paint(p.IsTable())
	_, err := io.WriteString(p.Out, paint.Screen(visible.Text(text)))
	return err
}

// plain returns the JSON of a message as a script wants it: nested metadata is JSON instead of a text of JSON, and the
// servers of a wave are counted by the name of a state instead of its number. In a text of JSON every quote has a
// backslash before it, so that no text of a message is taken for a field.
func plain(data []byte) []byte {
	return byName(nested(data))
}

// nested replaces each text that is marked as JSON by the JSON.
func nested(data []byte) []byte {
	begin, out := []byte(`"`+metadata.Mark), []byte(nil)
	for {
		at := bytes.Index(data, begin)
		switch {
		case at < 0 && out == nil:
			return data
		case at < 0:
			return append(out, data...)
		}
		out, data = append(out, data[:at]...), data[at:]
		n := textEnd(data)
		var value string
		if err := json.Unmarshal(data[:n], &value); err == nil && json.Valid([]byte(metadata.Text(value))) {
			out = append(out, metadata.Text(value)...)
		} else {
			out = append(out, data[:n]...)
		}
		data = data[n:]
	}
}

// textEnd returns the length of the text that begins with the first byte, its quotes included.
func textEnd(data []byte) int {
	for n := 1; n < len(data); n++ {
		switch data[n] {
		case '\\':
			n++
		case '"':
			return n + 1
		}
	}
	return len(data)
}

var (
	numbered = regexp.MustCompile(`"counts":\{(?:"[0-9]+":[0-9]+,?)+\}`)
	number   = regexp.MustCompile(`"[0-9]+":`)
)

// byName replaces the numbers of states by their names.
func byName(data []byte) []byte {
	return numbered.ReplaceAllFunc(data, func(counts []byte) []byte {
		return number.ReplaceAllFunc(counts, func(key []byte) []byte {
			n, err := strconv.Atoi(string(key[1 : len(key)-2]))
			if err != nil {
				return key
			}
			return []byte(`"` + listing.Word(rolloutv1.TargetState(n)) + `":`)
		})
	})
}
