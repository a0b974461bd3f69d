package output

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/visible"
)

// withoutSparse returns the columns without those that are empty in all rows and need not be there.
func withoutSparse[T any](p *Printer, v listing.View, columns []listing.Column[T], rows []T) []listing.Column[T] {
	if len(p.Columns) > 0 || v.Wide {
		return columns
	}
	return slices.DeleteFunc(slices.Clone(columns), func(c listing.Column[T]) bool {
		return c.Sparse && !slices.ContainsFunc(rows, func(r T) bool { return c.Value(v, r) != "" })
	})
}

// CheckColumns returns an error if --columns or --sort names a column that the listing lacks.
func CheckColumns[T any](p *Printer, l listing.Listing[T]) error {
	if _, err := listing.Chosen(p.Columns, true, l.Columns); err != nil || p.Sort == "" {
		return err
	}
	_, err := listing.Named("--sort", strings.TrimPrefix(p.Sort, "-"), l.Columns)
	return err
}

// PrintFitted prints a table of columns as they fit into the terminal of the printer.
func PrintFitted[T any](p *Printer, v listing.View, columns []listing.Column[T], rows []T) error {
	return printTable(p, v, fit(v, withoutSparse(p, v, columns, rows), rows, true, p.width()), rows, true)
}

// printTable prints columns two spaces apart, without rules.
func printTable[T any](p *Printer, v listing.View, columns []listing.Column[T], rows []T, headers bool) error {
	t := table.NewWriter()
	t.SetStyle(bare)
	t.SuppressTrailingSpaces()
	beside := slices.DeleteFunc(slices.Clone(columns), func(c listing.Column[T]) bool { return c.Below > 0 })
	var configs []table.ColumnConfig
	var titles table.Row
	for i, c := range beside {
		titles = append(titles, p.Paint.Title(c.Title))
		configs = append(configs, table.ColumnConfig{Number: i + 1, WidthMin: c.Min})
	}
	t.SetColumnConfigs(configs)
	if headers {
		t.AppendHeader(titles)
	}
	for _, r := range rows {
		var cells table.Row
		for _, c := range beside {
			cells = append(cells, p.Paint.Cell(c.Title, cell(c, v, r)))
		}
		t.AppendRow(cells)
	}
	shown := t.Render()
	if shown == "" {
		return nil
	}
	if len(beside) < len(columns) {
		shown = withLinesBelow(shown, v, columns, rows, headers)
	}
	_, err := fmt.Fprintln(p.Out, shown)
	return err
}

// withLinesBelow returns a table, which has a line for each row, with the lines that belong below its rows.
func withLinesBelow[T any](shown string, v listing.View, columns []listing.Column[T], rows []T, headers bool) string {
	var b strings.Builder
	for n, line := range strings.Split(shown, "\n") {
		b.WriteString(line + "\n")
		if headers {
			n--
		}
		if n >= 0 && n < len(rows) {
			b.WriteString(below(v, columns, rows[n]))
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

var bare = table.Style{
	Name:    "bare",
	Box:     table.BoxStyle{PaddingRight: "  "},
	Format:  table.FormatOptions{},
	Options: table.OptionsNoBordersAndSeparators,
}

// printPairs prints titles and values, one pair per line; further lines of a value are indented. Lines that are longer
// than the terminal are broken between words.
func printPairs(p *Printer, pairs [][2]string) error {
	width, columns := 0, p.width()
	for _, pair := range pairs {
		width = max(width, len(pair[0]))
	}
	var b strings.Builder
	for _, pair := range pairs {
		lines := strings.Split(strings.TrimRight(visible.Text(pair[1]), "\n"), "\n")
		for n, line := range lines {
			if columns > 0 && width+gap+text.StringWidth(line) > columns {
				lines[n] = Wrap(line, columns, width+gap)
			}
		}
		title := p.Paint.Title(pair[0]) + strings.Repeat(" ", width-len(pair[0]))
		fmt.Fprintf(&b, "%s  %s\n", title, p.Paint.Cell(pair[0], cmp.Or(lines[0], "-")))
		for _, line := range lines[1:] {
			fmt.Fprintf(&b, "%-*s  %s\n", width, "", p.Paint.Cell(pair[0], line))
		}
	}
	_, err := io.WriteString(p.Out, b.String())
	return err
}
