package output

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/visible"
)

// Column is one column of a listing.
type Column[T any] struct {
	Title  string
	Wide   bool // only in the wide table
	Value  func(View, T) string
	Key    func(T) string // sort key; nil sorts by the printed value
	Data   func(T) any    // the value of flat objects, where that is no text; may be nil
	Sparse bool           // a table leaves it out when it is empty in all rows of the first part
	Number bool           // its values are whole numbers; an empty one is 0
	Min    int            // minimum width, for listings that are printed in parts
	Cut    int            // the width to which its cells are cut; 0 means that they are whole
	Below  int            // the width of the lines below a row that its cells are printed on; 0 means in the row
}

// Col returns a column whose text depends on the row only.
func Col[T any](title string, text func(T) string) Column[T] {
	return Column[T]{Title: title, Value: func(_ View, row T) string { return text(row) }}
}

// Wide returns a column that only the wide table shows.
func Wide[T any](title string, text func(T) string) Column[T] {
	c := Col(title, text)
	c.Wide = true
	return c
}

// Numeric returns the column as one of whole numbers.
func (c Column[T]) Numeric() Column[T] {
	c.Number = true
	return c
}

// IfSet returns the column as one that a table leaves out when it is empty in all rows.
func (c Column[T]) IfSet() Column[T] {
	c.Sparse = true
	return c
}

// Since returns a column with the age of a time. It sorts by the time.
func Since[T any](title string, at func(T) *timestamppb.Timestamp) Column[T] {
	return Column[T]{
		Title: title,
		Value: func(v View, row T) string { return Age(v, at(row)) },
		Key:   func(row T) string { return Stamp(at(row)) },
	}
}

// Listing describes how rows of one type are printed.
type Listing[T any] struct {
	Name    func(T) string // what -o name prints
	Columns []Column[T]
	Order   string // the column that its rows are sorted by without --sort; "" keeps the order of the service
	Tells   bool   // its texts are what is asked for: what does not fit beside a row is printed below it, and never cut
}

// Chosen returns the columns of --columns, or the default ones.
func Chosen[T any](asked []string, wide bool, all []Column[T]) ([]Column[T], error) {
	if len(asked) == 0 {
		return slices.DeleteFunc(slices.Clone(all), func(c Column[T]) bool { return c.Wide && !wide }), nil
	}
	var out []Column[T]
	for _, name := range asked {
		c, err := columnNamed("--columns", name, all)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// withoutSparse returns the columns without those that are empty in all rows and need not be there.
func withoutSparse[T any](p *Printer, v View, columns []Column[T], rows []T) []Column[T] {
	if len(p.Columns) > 0 || v.Wide {
		return columns
	}
	return slices.DeleteFunc(slices.Clone(columns), func(c Column[T]) bool {
		return c.Sparse && !slices.ContainsFunc(rows, func(r T) bool { return c.Value(v, r) != "" })
	})
}

// CheckColumns returns an error if --columns or --sort names a column that the listing lacks.
func CheckColumns[T any](p *Printer, l Listing[T]) error {
	if _, err := Chosen(p.Columns, true, l.Columns); err != nil || p.Sort == "" {
		return err
	}
	_, err := columnNamed("--sort", strings.TrimPrefix(p.Sort, "-"), l.Columns)
	return err
}

// ColumnError reports a column that a listing lacks.
type ColumnError struct {
	flag, name string
	want       []string
}

// Error implements error.
func (e *ColumnError) Error() string {
	return fmt.Sprintf("%s: unknown column %q (want %s)", e.flag, e.name, strings.Join(e.want, ", "))
}

func columnNamed[T any](flag, name string, all []Column[T]) (Column[T], error) {
	var titles []string
	for _, c := range all {
		if strings.EqualFold(c.Title, name) {
			return c, nil
		}
		titles = append(titles, strings.ToLower(c.Title))
	}
	return Column[T]{}, &ColumnError{flag: flag, name: name, want: titles}
}

// sortRows sorts rows by a column, numbers numerically.
func sortRows[T any](by string, v View, l Listing[T], rows []T) error {
	by = cmp.Or(by, l.Order)
	if by == "" {
		return nil
	}
	name, down := strings.CutPrefix(by, "-")
	c, err := columnNamed("--sort", name, l.Columns)
	if err != nil {
		return err
	}
	key := c.Key
	if key == nil {
		key = func(t T) string { return c.Value(v, t) }
	}
	slices.SortStableFunc(rows, func(a, b T) int {
		order := natural(key(a), key(b))
		if down {
			return -order
		}
		return order
	})
	return nil
}

func natural(a, b string) int {
	x, errA := strconv.ParseFloat(a, 64)
	y, errB := strconv.ParseFloat(b, 64)
	if errA == nil && errB == nil {
		return cmp.Compare(x, y)
	}
	return strings.Compare(a, b)
}

// PrintFitted prints a table of columns as they fit into the terminal of the printer.
func PrintFitted[T any](p *Printer, v View, columns []Column[T], rows []T) error {
	return printTable(p, v, fit(v, withoutSparse(p, v, columns, rows), rows, true, p.width()), rows, true)
}

// printTable prints columns two spaces apart, without rules.
func printTable[T any](p *Printer, v View, columns []Column[T], rows []T, headers bool) error {
	t := table.NewWriter()
	t.SetStyle(bare)
	t.SuppressTrailingSpaces()
	beside := slices.DeleteFunc(slices.Clone(columns), func(c Column[T]) bool { return c.Below > 0 })
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
			cells = append(cells, p.Paint.Cell(c.Title, c.cell(v, r)))
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
func withLinesBelow[T any](shown string, v View, columns []Column[T], rows []T, headers bool) string {
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

// Cell returns a value on one line, and a dash for an empty value.
func Cell(s string) string {
	return cmp.Or(strings.Join(strings.Fields(visible.Text(s)), " "), "-")
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
