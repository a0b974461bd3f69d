package output

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/visible"
)

// Live is progress that is redrawn in place on a terminal: one line or several. Elsewhere it prints nothing.
type Live struct {
	mu     sync.Mutex
	W      io.Writer
	On     bool
	Paint  Paint
	shown  int        // how many lines are drawn
	Width  func() int // the columns of the terminal; nil or 0 means 80
	Height func() int // its lines; nil or 0 means 24
	last   time.Time
}

// mostRows is how many lines of a terminal one line of progress takes at most.
const mostRows = 3

// Set replaces the progress with one line, which is cut at the width of the terminal, at most ten times a second.
func (l *Live) Set(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.due() {
		l.draw([]string{text.Trim(listing.OneLine(visible.Text(fmt.Sprintf(format, args...))), l.columns())})
	}
}

// SetLines replaces the progress with several lines, at most ten times a second. One that is wider than the terminal
// goes on in the next line, and of more lines than the terminal has the last ones are shown.
func (l *Live) SetLines(lines ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.due() {
		return
	}
	var rows []string
	for _, line := range lines {
		rows = append(rows, fold(listing.OneLine(visible.Text(line)), l.columns())...)
	}
	height := 0
	if l.Height != nil {
		height = l.Height()
	}
	most := max(cmp.Or(height, 24)-1, 1)
	l.draw(rows[max(0, len(rows)-most):])
}

// fold returns a line as rows of a width, with those after the first indented; the last of mostRows is cut.
func fold(line string, width int) []string {
	const indent = "  "
	var rows []string
	row := ""
	for _, word := range strings.Split(line, " ") {
		switch {
		case row == "":
			row = word
		case len(rows) < mostRows-1 && text.StringWidthWithoutEscSequences(row+" "+word) > width:
			rows, row = append(rows, text.Trim(row, width)), indent+word
		default:
			row += " " + word
		}
	}
	return append(rows, text.Trim(row, width))
}

// due reports whether the progress may be drawn again.
func (l *Live) due() bool { return l.On && time.Since(l.last) >= 100*time.Millisecond }

// draw replaces the rows that are shown.
func (l *Live) draw(rows []string) {
	l.erase()
	l.last, l.shown = time.Now(), len(rows)
	for n, row := range rows {
		rows[n] = l.Paint.Counts(row)
	}
	fmt.Fprint(l.W, strings.Join(rows, "\n"))
}

// Say prints a permanent line above the progress line.
func (l *Live) Say(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
	fmt.Fprintln(l.W, l.Paint.Message(visible.Text(fmt.Sprintf(format, args...))))
}

// End erases the progress line.
func (l *Live) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
}

func (l *Live) clear() {
	if l.shown > 0 {
		l.erase()
		l.shown, l.last = 0, time.Time{}
	}
}

// erase clears the rows that are shown, and leaves the cursor where the first one began.
func (l *Live) erase() {
	if l.shown > 1 {
		fmt.Fprintf(l.W, "\r\x1b[%dA\x1b[J", l.shown-1)
		return
	}
	fmt.Fprint(l.W, "\r\x1b[K")
}

// columns returns how long a line may be: one that fills the terminal would wrap in some.
func (l *Live) columns() int {
	width := 0
	if l.Width != nil {
		width = l.Width()
	}
	if width == 0 {
		width = 80
	}
	return max(width-1, 20)
}
