package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"sigs.k8s.io/yaml"

	"github.com/garrison-fleet/garrison/pkg/page"
	"github.com/garrison-fleet/garrison/pkg/visible"
)

// Encode returns a value as compact JSON with stable spacing, without characters that steer a terminal. See
// encodeMessage for what a message becomes.
func Encode(value any) ([]byte, error) {
	m, ok := value.(proto.Message)
	if !ok {
		data, err := json.Marshal(value)
		return visible.JSON(data), err
	}
	var b bytes.Buffer
	err := encodeMessage(&b, m.ProtoReflect(), page.RowsField(m.ProtoReflect()))
	return visible.JSON(b.Bytes()), err
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
