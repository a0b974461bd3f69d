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

	"github.com/garrison-fleet/garrison/pkg/visible"
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
		name, _, _ := strings.Cut(format, "=")
		if slices.Contains(queryFormats, name) {
			return fmt.Errorf("%q is not a format; a part of the data is printed with --jq EXPR, such as "+
				"--jq '.[].name'", format)
		}
		return fmt.Errorf("%q is not a format (want %s, template=TEXT)", format, strings.Join(Formats, ", "))
	}
	return nil
}

// queryFormats are the formats by which other programs select a part of the data.
var queryFormats = []string{"jsonpath", "jsonpath-as-json", "jsonpath-file", "go-template", "go-template-file",
	"custom-columns", "jq"}

func parseTemplate(text string) (*template.Template, error) {
	return template.New("row").Option("missingkey=error").Parse(text)
}

// flat reports whether rows are printed as flat objects with the keys of the columns.
func (p *Printer) flat() bool {
	return p.Format == FormatRows || strings.HasPrefix(p.Format, TemplatePrefix)
}

// flatRow returns a row as an object with a key for each column: the title in lower case, with _ for spaces and dashes.
// Its values are those of the wide table, numbers in the columns that have numbers, and lists and objects where columns
// have them.
func flatRow[T any](v View, columns []Column[T], row T) map[string]any {
	v.Wide = true
	out := make(map[string]any, len(columns))
	for _, c := range columns {
		key := strings.NewReplacer(" ", "_", "-", "_").Replace(strings.ToLower(c.Title))
		text := c.Value(v, row)
		out[key] = text
		if c.Data != nil {
			out[key] = c.Data(row)
		}
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
	if p.Filter != nil {
		flat := make([]map[string]any, len(rows))
		for i, row := range rows {
			flat[i] = flatRow(v, columns, row)
		}
		return p.PrintDocument(FormatJSON, flat)
	}
	shape, err := p.template()
	if err != nil {
		return err
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

// template returns the template of the format, or nil for another format.
func (p *Printer) template() (*template.Template, error) {
	text, ok := strings.CutPrefix(p.Format, TemplatePrefix)
	if !ok {
		return nil, nil
	}
	return parseTemplate(text)
}

// FilterEach prints what the filter makes of each row alone: of its flat object, or in JSON of the row itself.
func FilterEach[T any](p *Printer, v View, l Listing[T], rows []T) error {
	for _, row := range rows {
		show := func() error { return filterFlat(p, v, l, row) }
		if p.Format == FormatJSON {
			show = func() error { return p.PrintDocument(FormatJSON, row) }
		}
		if err := show(); err != nil {
			return err
		}
	}
	return nil
}

// filterFlat prints what the filter makes of one row.
func filterFlat[T any](p *Printer, v View, l Listing[T], row T) error {
	columns, err := Chosen(p.Columns, true, l.Columns)
	if err != nil {
		return err
	}
	return p.PrintDocument(FormatJSON, flatRow(v, columns, row))
}

// flatLine returns one row, as JSON without a template.
func flatLine(shape *template.Template, row map[string]any) (string, error) {
	if shape == nil {
		data, err := json.Marshal(row)
		return string(visible.JSON(data)), err
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
	return visible.Text(b.String()), nil
}
