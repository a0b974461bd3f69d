package output

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
)

// Live is a progress line that is redrawn in place on a terminal. Elsewhere it prints nothing.
type Live struct {
	mu    sync.Mutex
	W     io.Writer
	On    bool
	Paint Paint
	shown bool
	Width func() int // the columns of the terminal; nil or 0 means 80
	last  time.Time
}

// Set replaces the line, at most ten times a second.
func (l *Live) Set(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.On || time.Since(l.last) < 100*time.Millisecond {
		return
	}
	l.last, l.shown = time.Now(), true
	line := text.Trim(OneLine(Visible(fmt.Sprintf(format, args...))), l.columns())
	fmt.Fprintf(l.W, "\r\x1b[K%s", l.Paint.Counts(line))
}

// Say prints a permanent line above the progress line.
func (l *Live) Say(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
	fmt.Fprintln(l.W, l.Paint.Message(Visible(fmt.Sprintf(format, args...))))
}

// End erases the progress line.
func (l *Live) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
}

func (l *Live) clear() {
	if l.shown {
		fmt.Fprint(l.W, "\r\x1b[K")
		l.shown, l.last = false, time.Time{}
	}
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
