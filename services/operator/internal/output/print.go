// Package output prints data: tables, JSON, YAML and names, and the words and times in them.
//
// It knows neither the command line nor the bus. A Listing describes once how rows of one type are shown; Show and
// ShowOne print it in the format that a Printer holds.
//
//  1. Data goes to the Printer's writer only.
//  2. JSON keys are the keys of the protos, in lower camel case; enums are words, digests hex. An empty list is printed
//     as one.
//  3. Control characters in a value never reach a terminal: values come from servers.
//  4. A cell of a table is one line. An empty cell is a dash.
package output

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/visible"
)

// Formats of data, the values of --output.
const (
	FormatTable = "table"
	FormatWide  = "wide"
	FormatJSON  = "json"
	FormatJSONL = "jsonl"
	FormatYAML  = "yaml"
	FormatName  = "name"
)

// Formats lists the formats of data.
var Formats = []string{FormatTable, FormatWide, FormatJSON, FormatJSONL, FormatYAML, FormatName}

// Printer prints data in the format that the flags of the command line select.
type Printer struct {
	Out io.Writer
	Now func() time.Time

	Format    string
	File      string // what -o names in place of a format; see cli.OutVar
	NoHeaders bool
	Columns   []string
	Sort      string
	Width     func() int      // the columns that there are; nil or 0 without a limit
	Paint     Paint           // tables are coloured; documents never are
	Filter    *Filter         // --jq; nil prints the data itself
	Context   context.Context // ends a filter; nil means that only its end does
	LeftOut   func([]string)  // receives once the titles of the columns that do not fit; may be nil
}

// CheckFilter refuses a format with a filter that prints no data: a filter works on what -o json prints, and otherwise
// on flat rows.
func (p *Printer) CheckFilter() error {
	if p.Filter == nil || p.Format == FormatTable || p.Format == FormatJSON {
		return nil
	}
	return fmt.Errorf("--jq works on rows, and on documents with -o json, not with -o %s", p.Format)
}

// filter prints what the filter makes of a document.
func (p *Printer) filter(document []byte) error {
	ctx := p.Context
	if ctx == nil {
		ctx = context.Background()
	}
	return p.Filter.print(ctx, p.Out, document)
}

// width returns the columns of the terminal that is printed on; 0 for another stream.
func (p *Printer) width() int {
	if p.Width == nil {
		return 0
	}
	return p.Width()
}

// IsTable reports whether the format is a table for people.
func (p *Printer) IsTable() bool { return p.Format == FormatTable || p.Format == FormatWide }

// View returns the view of the current time and format.
func (p *Printer) View() listing.View { return listing.View{At: p.Now(), Wide: p.Format == FormatWide} }

// Show prints a list: whole in JSON and YAML, rows in the other formats.
func Show[T any](p *Printer, l listing.Listing[T], whole any, rows []T) error {
	return ShowIn(p, p.View(), l, whole, rows)
}

// ShowIn is Show with a view of the caller.
func ShowIn[T any](p *Printer, v listing.View, l listing.Listing[T], whole any, rows []T) error {
	if err := listing.Sort(p.Sort, v, l, rows); err != nil {
		return err
	}
	setRows(whole, rows)
	if p.Format == FormatJSON || p.Format == FormatYAML {
		return p.PrintDocument(p.Format, whole)
	}
	return NewParts(p, v, l).Show(rows)
}

// ShowOne prints one object; tables become one line per column, followed by the pairs of more.
func ShowOne[T any](p *Printer, v listing.View, l listing.Listing[T], thing T, more ...[2]string) error {
	if p.flat() {
		return filterFlat(p, v, l, thing)
	}
	switch p.Format {
	case FormatJSON, FormatYAML:
		return p.PrintDocument(p.Format, thing)
	case FormatJSONL:
		return printLines(p.Out, []T{thing})
	case FormatName:
		_, err := fmt.Fprintln(p.Out, visible.Text(l.Name(thing)))
		return err
	}
	columns, err := listing.Chosen(p.Columns, true, l.Columns)
	if err != nil {
		return err
	}
	v.Wide = true
	var lines [][2]string
	for _, c := range columns {
		lines = append(lines, [2]string{c.Title, c.Value(v, thing)})
	}
	if len(p.Columns) == 0 {
		lines = append(lines, more...)
	}
	return printPairs(p, lines)
}

// InParts reports whether a list can be printed part by part: not as one document, not sorted, and not filtered.
func (p *Printer) InParts() bool {
	return p.Format != FormatJSON && p.Format != FormatYAML && p.Sort == "" && p.Filter == nil
}

// Parts prints one list part by part, in a format that InParts allows. The columns of a table keep the widths that they
// have in its first part; a later cell that is wider moves the rest of its part, and on a terminal the widest column
// makes room for it.
type Parts[T any] struct {
	printer *Printer
	view    listing.View
	listing listing.Listing[T]
	columns []listing.Column[T] // of a table, once its first part is printed
}

// NewParts returns a list that is not printed yet.
func NewParts[T any](p *Printer, v listing.View, l listing.Listing[T]) *Parts[T] {
	return &Parts[T]{printer: p, view: v, listing: l}
}

// Show prints the next part. A part is sorted in itself: a service lists by id, and only a list of several parts, each
// of a thousand rows, shows it.
func (s *Parts[T]) Show(rows []T) error {
	if err := listing.Sort(s.printer.Sort, s.view, s.listing, rows); err != nil {
		return err
	}
	switch {
	case s.printer.flat():
		return filterRows(s.printer, s.view, s.listing, rows)
	case s.printer.Format == FormatJSONL:
		return printLines(s.printer.Out, rows)
	case s.printer.Format == FormatName:
		return s.showNames(rows)
	}
	return s.showTable(rows)
}

func (s *Parts[T]) showNames(rows []T) error {
	for _, r := range rows {
		if _, err := fmt.Fprintln(s.printer.Out, visible.Text(s.listing.Name(r))); err != nil {
			return err
		}
	}
	return nil
}

func (s *Parts[T]) showTable(rows []T) error {
	first := s.columns == nil
	headers := first && !s.printer.NoHeaders
	switch {
	case first:
		if err := s.choose(rows, headers); err != nil {
			return err
		}
	case s.fits() && !s.listing.Tells && s.printer.width() > 0:
		shrink(s.columns, widths(s.view, s.columns, rows, false), s.printer.width())
	}
	if err := printTable(s.printer, s.view, s.columns, rows, headers); err != nil {
		return err
	}
	if first {
		s.keepWidths(rows, headers)
	}
	return nil
}

// fits reports whether columns are left out and cut, so that rows fit the terminal.
func (s *Parts[T]) fits() bool { return len(s.printer.Columns) == 0 && !s.view.Wide }

// choose chooses the columns of all parts by the rows of the first one.
func (s *Parts[T]) choose(rows []T, headers bool) error {
	columns, err := listing.Chosen(s.printer.Columns, s.view.Wide, s.listing.Columns)
	if err != nil {
		return err
	}
	s.columns = withoutSparse(s.printer, s.view, columns, rows)
	if !s.fits() {
		return nil
	}
	as := cutTo[T]
	if s.listing.Tells {
		as = fit[T]
	}
	s.columns = as(s.view, s.columns, rows, headers, s.printer.width())
	s.printer.sayLeftOut(leftOut(s.view, columns, s.columns, rows))
	return nil
}

// keepWidths makes the columns at least as wide as they are in printed rows.
func (s *Parts[T]) keepWidths(rows []T, headers bool) {
	for n, width := range widths(s.view, s.columns, rows, headers) {
		s.columns[n].Min = max(width, 0)
	}
}
