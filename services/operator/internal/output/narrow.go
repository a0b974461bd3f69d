package output

import (
	"regexp"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/garrison-fleet/garrison/pkg/listing"
)

// gap is the space between two columns.
const gap = 2

// indent is the space before a cell that is printed below its row.
const indent = 4

// leastCut is the width to which a cell is cut at most: words of states such as succeeded stay whole.
const leastCut = 9

// leastName is the width to which the name that a row begins with is cut at most, where nothing else can be.
const leastName = 24

// names are the titles of columns that are cut in the middle: names of one site often begin alike, or end alike.
var names = []string{"NAME", "SERVER"}

// The titles of columns that are of no use in part: those with commands that come next, which are left out at last, and
// others.
var (
	commands = []string{"NEXT", "TRY", "CURE"}
	whole    = append([]string{"ID", "TIME", "SINCE", "CAUSE"}, commands...)
)

// cutTo returns the columns of a list as they fit into a width with one line for a row. Columns that say nothing in all
// rows are left out, but for the first; then the widest cells are cut; and where that is not enough, the last columns
// are left out, those with commands and the state at last.
func cutTo[T any](v listing.View, columns []listing.Column[T], rows []T, headers bool, width int) []listing.Column[T] {
	if width <= 0 || len(rows) == 0 || total(widths(v, columns, rows, headers)) <= width {
		return columns
	}
	kept := slices.Clone(columns[:1])
	for _, c := range columns[1:] {
		if slices.ContainsFunc(rows, func(r T) bool { return says(c, v, r) }) {
			kept = append(kept, c)
		}
	}
	for {
		cut, have := slices.Clone(kept), widths(v, kept, rows, headers)
		if shrink(cut, have, width) || len(kept) < 2 {
			return cut
		}
		kept = slices.Delete(kept, lastLess(kept), lastLess(kept)+1)
	}
}

// shrink cuts the widest columns until their rows, which are as wide as have says, fit, and reports whether they do.
func shrink[T any](columns []listing.Column[T], have []int, width int) bool {
	for total(have) > width {
		widest := widestCut(columns, have)
		if widest < 0 {
			return false
		}
		have[widest]--
		columns[widest].Cut, columns[widest].Min = have[widest], min(columns[widest].Min, have[widest])
	}
	return true
}

// leftOut returns the titles of the columns that are not kept although a row has a value in them.
func leftOut[T any](v listing.View, columns, kept []listing.Column[T], rows []T) (titles []string) {
	for _, c := range columns {
		same := func(k listing.Column[T]) bool { return k.Title == c.Title }
		if !slices.ContainsFunc(kept, same) && slices.ContainsFunc(rows, func(r T) bool { return says(c, v, r) }) {
			titles = append(titles, c.Title)
		}
	}
	return titles
}

// sayLeftOut tells once which columns do not fit.
func (p *Printer) sayLeftOut(titles []string) {
	if len(titles) > 0 && p.LeftOut != nil {
		p.LeftOut(titles)
		p.LeftOut = nil
	}
}

// widestCut returns the widest column whose cells can be cut further; -1 without one.
func widestCut[T any](columns []listing.Column[T], have []int) int {
	widest := -1
	for n, c := range columns {
		least := max(leastCut, text.StringWidth(c.Title))
		if n == 0 || have[n] <= least || c.Number || slices.Contains(whole, c.Title) {
			continue
		}
		if widest < 0 || have[n] >= have[widest] {
			widest = n
		}
	}
	if widest < 0 && have[0] > leastName && slices.Contains(names, columns[0].Title) {
		return 0
	}
	return widest
}

// lastLess returns the column that is left out first: the last one, before those with commands and the state.
func lastLess[T any](columns []listing.Column[T]) int {
	for n := len(columns) - 1; n > 1; n-- {
		if title := columns[n].Title; title != "STATE" && !slices.Contains(commands, title) {
			return n
		}
	}
	return len(columns) - 1
}

// fit returns the columns of a table as they fit into a width. Columns that say nothing in all rows, but for the first,
// and then the widest ones are printed below their rows, those behind the second first. Nothing is left out: a cell
// that says nothing needs no line, and a later part of the list may have a value.
func fit[T any](v listing.View, columns []listing.Column[T], rows []T, headers bool, width int) []listing.Column[T] {
	if width <= 0 || len(rows) == 0 || total(widths(v, columns, rows, headers)) <= width {
		return columns
	}
	kept := slices.Clone(columns)
	for n, c := range columns {
		if n > 0 && !slices.ContainsFunc(rows, func(r T) bool { return says(c, v, r) }) {
			kept[n].Below = width
		}
	}
	have := widths(v, kept, rows, headers)
	for left := len(kept); left > 1 && total(have) > width; left-- {
		widest := 1 // the first two say what the row is about
		for n := 2; n < len(have); n++ {
			if have[n] > have[widest] || widest == 1 && have[n] > 0 {
				widest = n
			}
		}
		have[widest], kept[widest].Below = -gap, width
	}
	return kept
}

// widths returns how wide each column is; -gap for one that is printed below.
func widths[T any](v listing.View, columns []listing.Column[T], rows []T, headers bool) []int {
	out := make([]int, len(columns))
	for n, c := range columns {
		if c.Below > 0 {
			out[n] = -gap
			continue
		}
		out[n] = c.Min
		if headers {
			out[n] = max(out[n], text.StringWidth(c.Title))
		}
		for _, r := range rows {
			out[n] = max(out[n], text.StringWidth(cell(c, v, r)))
		}
	}
	return out
}

// total returns the width of a table.
func total(widths []int) int {
	sum := gap * (len(widths) - 1)
	for _, w := range widths {
		sum += w
	}
	return sum
}

// below returns the lines below a row, with the values of columns that do not fit beside it.
func below[T any](v listing.View, columns []listing.Column[T], row T) string {
	var b strings.Builder
	for _, c := range columns {
		if c.Below > 0 && says(c, v, row) {
			lines := Wrap(strings.ToLower(c.Title)+": "+listing.Cell(c.Value(v, row)), c.Below, indent)
			b.WriteString(strings.Repeat(" ", indent) + lines + "\n")
		}
	}
	return b.String()
}

// Wrap breaks a text between words into lines of at most a width, all but the first of which begin with spaces; the
// first one stands behind as many. A word that is longer than a line has a line of its own.
func Wrap(s string, width, spaces int) string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(s) {
		switch {
		case line == "":
			line = word
		case spaces+text.StringWidth(line)+1+text.StringWidth(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	return strings.Join(append(lines, line), "\n"+strings.Repeat(" ", spaces))
}

// Reflow breaks the paragraphs of a text between words, if a line of them is wider than a terminal, and so the meanings
// in a list of terms. Other lines that begin with a space stay as they are: they are examples.
func Reflow(s string, width int) string {
	var out, paragraph []string
	column := 0 // in which the meaning of a term begins; 0 in a paragraph
	flush := func() {
		if slices.ContainsFunc(paragraph, func(line string) bool { return text.StringWidth(line) > width }) {
			term := paragraph[0][:column]
			paragraph[0] = paragraph[0][column:]
			paragraph = []string{term + Wrap(strings.Join(paragraph, " "), width, column)}
		}
		out, paragraph, column = append(out, paragraph...), nil, 0
	}
	for line := range strings.SplitSeq(s, "\n") {
		begins := meaningOf(line)
		switch {
		case line != "" && line[0] != ' ':
			if column > 0 {
				flush()
			}
			paragraph = append(paragraph, line)
		case begins > 0:
			flush()
			paragraph, column = []string{line}, begins
		case column > 0 && indented(line) == column:
			paragraph = append(paragraph, line)
		default:
			flush()
			out = append(out, line)
		}
	}
	flush()
	return strings.Join(out, "\n")
}

// terms are lines of a list: a term without a colon, and behind two spaces or more what it means, which is no comment.
var terms = regexp.MustCompile(`^  [\w][^ :]*(?: [^ :]+)* {2,}[^ #]`)

// meaningOf returns the column in which the meaning of a term begins, in a line of a list of terms; 0 for another line.
func meaningOf(line string) int {
	if found := terms.FindString(line); found != "" {
		return len(found) - 1
	}
	return 0
}

// indented returns with how many spaces a line begins.
func indented(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// says reports whether a cell says anything: it is neither empty nor a count of zero.
func says[T any](c listing.Column[T], v listing.View, row T) bool {
	value := listing.Cell(c.Value(v, row))
	return value != "-" && !(c.Number && value == "0")
}

// cell returns the value of a column in a row, cut where it has to fit.
func cell[T any](c listing.Column[T], v listing.View, row T) string {
	value := listing.Cell(c.Value(v, row))
	if c.Cut > 0 && text.StringWidth(value) > c.Cut {
		if slices.Contains(names, c.Title) {
			return cutMiddle(value, c.Cut)
		}
		return text.Trim(value, c.Cut-1) + "…"
	}
	return value
}

// cutMiddle returns the beginning and the end of a name, which has one column for each character.
func cutMiddle(name string, width int) string {
	all := []rune(name)
	head := (width - 1) / 2
	return string(all[:head]) + "…" + string(all[len(all)-(width-1-head):])
}
