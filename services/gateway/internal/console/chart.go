package console

import (
	"cmp"
	"fmt"
	"slices"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// bars is a row of a chart, drawn to the scale of the largest row.
type bars struct {
	Name  string
	Link  string
	Parts []bar
}

// bar is a part of a row: its count is a length and a colour, and is said in words below.
type bar struct {
	Count       int
	Word        string
	Class, Link string
	X, W        float64 // in thousandths of the width
}

// square is one of many servers, drawn as a cell.
type square struct{ Tone, Title, Link string }

// squaresDrawn bounds the cells of a page.
const squaresDrawn = 2000

// chart gathers bars by the names of their rows.
type chart map[string]*bars

func (c chart) add(row string, is bar) {
	if c[row] == nil {
		c[row] = &bars{Name: row}
	}
	c[row].Parts = append(c[row].Parts, is)
}

// rows returns the rows by name, at most n of them, each part with its place.
func (c chart) rows(n int) []*bars {
	var out []*bars
	most := 0
	for _, row := range c {
		out = append(out, row)
		most = max(most, row.total())
	}
	slices.SortFunc(out, func(a, b *bars) int { return cmp.Compare(a.Name, b.Name) })
	out = out[:min(len(out), n)]
	for _, row := range out {
		x := 0.0
		for n := range row.Parts {
			is := &row.Parts[n]
			is.X, is.W = x, float64(is.Count)/float64(most)*1000
			x += is.W
		}
	}
	return out
}

// othersCut says how many are in groups that a chart does not have.
func othersCut(counts *registryv1.Counts) []cell {
	if counts.GetOthers() == 0 {
		return nil
	}
	return []cell{{Text: fmt.Sprintf("%d more are in smaller groups that are not drawn.", counts.GetOthers())}}
}

// cut says that a chart has more rows than are drawn.
func (c chart) cut(n int) []cell {
	if len(c) <= n {
		return nil
	}
	return []cell{{Text: fmt.Sprintf("The first %d of %d rows are drawn.", n, len(c))}}
}

func (b *bars) total() (n int) {
	for _, is := range b.Parts {
		n += is.Count
	}
	return n
}
