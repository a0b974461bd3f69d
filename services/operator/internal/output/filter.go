package output

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/itchyny/gojq"

	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/visible"
)

// Filter is a program in the language of jq that turns data into lines of text.
type Filter struct {
	text string
	code *gojq.Code
}

// ParseFilter parses a program of --jq. It has no access to the environment, to files or to modules.
func ParseFilter(text string) (*Filter, error) {
	query, err := gojq.Parse(text)
	if err != nil {
		var wrong *gojq.ParseError
		if errors.As(err, &wrong) && wrong.Token != "" {
			return nil, fmt.Errorf("%q cannot be parsed: unexpected %q at byte %d", text, wrong.Token, wrong.Offset)
		}
		return nil, fmt.Errorf("%q cannot be parsed: it ends too early", text)
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return nil, fmt.Errorf("%q cannot be run: %w", text, err)
	}
	return &Filter{text: text, code: code}, nil
}

// String returns the program.
func (f *Filter) String() string {
	if f == nil {
		return ""
	}
	return f.text
}

// print runs the program on a JSON document and prints each result on a line: text as it is, anything else as JSON.
func (f *Filter) print(ctx context.Context, w io.Writer, document []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber() // whole numbers stay exact
	var value any
	if err := decoder.Decode(&value); err != nil {
		return err
	}
	for results := f.code.RunWithContext(ctx, value); ; {
		result, more := results.Next()
		if !more {
			return nil
		}
		if err, failed := result.(error); failed {
			var halt *gojq.HaltError
			if errors.As(err, &halt) && halt.Value() == nil {
				return nil // the program ended itself
			}
			return fmt.Errorf("--jq: %w. Try: --jq . to see the data", err)
		}
		line, err := filterLine(result)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
}

// filterLine returns one result as text.
func filterLine(result any) (string, error) {
	if text, ok := result.(string); ok {
		return visible.Text(text), nil
	}
	data, err := gojq.Marshal(result)
	return string(visible.JSON(data)), err
}

// CheckFormat refuses an unknown format.
func CheckFormat(format string) error {
	if slices.Contains(Formats, format) {
		return nil
	}
	if name, _, _ := strings.Cut(format, "="); slices.Contains(queryFormats, name) {
		return fmt.Errorf("%q is not a format; a part of the data is printed with --jq EXPR, such as --jq '.[].name'",
			format)
	}
	return fmt.Errorf("%q is not a format (want %s)", format, strings.Join(Formats, ", "))
}

// queryFormats are the formats by which other programs select a part of the data.
var queryFormats = []string{"jsonpath", "jsonpath-as-json", "jsonpath-file", "go-template", "go-template-file",
	"custom-columns", "jq", "rows", "template"}

// flat reports whether a filter reads rows as flat objects with the keys of the columns.
func (p *Printer) flat() bool { return p.Filter != nil && p.Format != FormatJSON }

// flatRow returns a row as an object with a key for each column: the title in lower case, with _ for spaces and dashes.
// Its values are the wide table's, numbers in the columns that have numbers, and lists and objects where columns
// have them.
func flatRow[T any](v listing.View, columns []listing.Column[T], row T) map[string]any {
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

// filterRows prints what the filter makes of an array of flat objects.
func filterRows[T any](p *Printer, v listing.View, l listing.Listing[T], rows []T) error {
	columns, err := listing.Chosen(p.Columns, true, l.Columns)
	if err != nil {
		return err
	}
	flat := make([]map[string]any, len(rows))
	for i, row := range rows {
		flat[i] = flatRow(v, columns, row)
	}
	return p.PrintDocument(FormatJSON, flat)
}

// FilterEach prints what the filter makes of each row alone: of its flat object, or in JSON of the row itself.
func FilterEach[T any](p *Printer, v listing.View, l listing.Listing[T], rows []T) error {
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
func filterFlat[T any](p *Printer, v listing.View, l listing.Listing[T], row T) error {
	columns, err := listing.Chosen(p.Columns, true, l.Columns)
	if err != nil {
		return err
	}
	return p.PrintDocument(FormatJSON, flatRow(v, columns, row))
}
