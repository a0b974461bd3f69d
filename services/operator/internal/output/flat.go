package output

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/template"
)

// TemplatePrefix begins a format that is a template for each row, in the syntax of Go's text/template.
const TemplatePrefix = "template="

// CheckFormat refuses an unknown format and a template that cannot be parsed.
func CheckFormat(format string) error {
	text, ok := strings.CutPrefix(format, TemplatePrefix)
	if ok {
		_, err := parseTemplate(text)
		return err
	}
	if !slices.Contains(Formats, format) {
		return fmt.Errorf("%q is not a format (want %s, template=TEXT)", format, strings.Join(Formats, ", "))
	}
	return nil
}

func parseTemplate(text string) (*template.Template, error) {
	return template.New("row").Option("missingkey=error").Parse(text)
}

// flat reports whether rows are printed as flat objects with the keys of the columns.
func (p *Printer) flat() bool {
	return p.Format == FormatRows || strings.HasPrefix(p.Format, TemplatePrefix)
}

// flatRow returns a row as an object with a key for each column: the title in lower case, with _ for spaces and dashes.
// Its values are those of the wide table, and numbers in the columns that have numbers.
func flatRow[T any](v View, columns []Column[T], row T) map[string]any {
	v.Wide = true
	out := make(map[string]any, len(columns))
	for _, c := range columns {
		key := strings.NewReplacer(" ", "_", "-", "_").Replace(strings.ToLower(c.Title))
		text := c.Value(v, row)
		out[key] = text
		if c.Number {
			if n, err := strconv.ParseUint(cmp.Or(text, "0"), 10, 64); err == nil {
				out[key] = n
			}
		}
	}
	return out
}

// printFlat prints rows as JSON lines of flat objects, or through a template, a line each.
func printFlat[T any](p *Printer, v View, l Listing[T], rows []T) error {
	columns, err := Chosen(p.Columns, true, l.Columns)
	if err != nil {
		return err
	}
	var shape *template.Template
	if text, ok := strings.CutPrefix(p.Format, TemplatePrefix); ok {
		if shape, err = parseTemplate(text); err != nil {
			return err
		}
	}
	for _, row := range rows {
		line, err := flatLine(shape, flatRow(v, columns, row))
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(p.Out, "%s\n", line); err != nil {
			return err
		}
	}
	return nil
}

// flatLine returns one row, as JSON without a template.
func flatLine(shape *template.Template, row map[string]any) (string, error) {
	if shape == nil {
		data, err := json.Marshal(row)
		return string(visibleJSON(data)), err
	}
	var b bytes.Buffer
	if err := shape.Execute(&b, row); err != nil {
		keys := make([]string, 0, len(row))
		for k := range row {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		return "", fmt.Errorf("%w (keys: %s)", err, strings.Join(keys, ", "))
	}
	return Visible(b.String()), nil
}
