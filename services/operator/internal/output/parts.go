package output

import (
	"fmt"

	"github.com/garrison-fleet/garrison/pkg/visible"
)

// InParts reports whether a list can be printed part by part: not as one document, not sorted, and not filtered.
func (p *Printer) InParts() bool {
	return p.Format != FormatJSON && p.Format != FormatYAML && p.Sort == "" && p.Filter == nil
}

// Parts prints one list part by part, in a format that InParts allows. The columns of a table keep the widths that they
// have in its first part; a later cell that is wider moves the rest of its part.
type Parts[T any] struct {
	printer *Printer
	view    View
	listing Listing[T]
	columns []Column[T] // of a table, once its first part is printed
}

// NewParts returns a list of which nothing is printed yet.
func NewParts[T any](p *Printer, v View, l Listing[T]) *Parts[T] {
	return &Parts[T]{printer: p, view: v, listing: l}
}

// Show prints the next part.
func (s *Parts[T]) Show(rows []T) error {
	if s.printer.flat() {
		return printFlat(s.printer, s.view, s.listing, rows)
	}
	switch s.printer.Format {
	case FormatJSONL:
		return printLines(s.printer.Out, rows)
	case FormatName:
		for _, r := range rows {
			if _, err := fmt.Fprintln(s.printer.Out, visible.Text(s.listing.Name(r))); err != nil {
				return err
			}
		}
		return nil
	}
	first := s.columns == nil
	headers := first && !s.printer.NoHeaders
	if first {
		columns, err := Chosen(s.printer.Columns, s.view.Wide, s.listing.Columns)
		if err != nil {
			return err
		}
		s.columns = columns
		if len(s.printer.Columns) == 0 && !s.view.Wide {
			s.columns = fit(s.view, columns, rows, headers, s.printer.width())
		}
	}
	if err := printTable(s.printer, s.view, s.columns, rows, headers); err != nil {
		return err
	}
	if first {
		s.keepWidths(rows, headers)
	}
	return nil
}

// keepWidths makes the columns at least as wide as they are in printed rows.
func (s *Parts[T]) keepWidths(rows []T, headers bool) {
	for n, width := range widths(s.view, s.columns, rows, headers) {
		s.columns[n].Min = max(width, 0)
	}
}
