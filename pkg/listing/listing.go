// Package listing describes how rows of one type look to a person: their columns, words, ages and order. The CLI prints
// listings, and the gateway's console shows them, so that both say the same.
package listing

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

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
		c, err := Named("--columns", name, all)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
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

// Named returns the column with a title, for the flag with a name; an error is a *ColumnError.
func Named[T any](flag, name string, all []Column[T]) (Column[T], error) {
	var titles []string
	for _, c := range all {
		if strings.EqualFold(c.Title, name) {
			return c, nil
		}
		titles = append(titles, strings.ToLower(c.Title))
	}
	return Column[T]{}, &ColumnError{flag: flag, name: name, want: titles}
}

// Sort sorts rows by a column, numbers numerically.
func Sort[T any](by string, v View, l Listing[T], rows []T) error {
	by = cmp.Or(by, l.Order)
	if by == "" {
		return nil
	}
	name, down := strings.CutPrefix(by, "-")
	c, err := Named("--sort", name, l.Columns)
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

// Cell returns a value on one line, and a dash for an empty value.
func Cell(s string) string {
	return cmp.Or(strings.Join(strings.Fields(visible.Text(s)), " "), "-")
}

// View is what a column may use besides its row.
type View struct {
	At    time.Time         // now
	Wide  bool              // print whole ids and times
	Names map[string]string // names of servers by id
}

// Server returns a server's name, or its id when the name is unknown.
func (v View) Server(id string) string {
	if n := v.Names[id]; n != "" {
		return n
	}
	return id
}

// Bar returns a progress bar, or "" when there is nothing to do.
func Bar(done, all uint64) string {
	const width = 24
	if all == 0 {
		return ""
	}
	full := int(min(done, all) * width / all)
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", width-full) + "]"
}
