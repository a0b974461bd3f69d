package operator

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
)

// live is one moving line below the talk, on a terminal; elsewhere it prints nothing.
type live struct {
	mu    sync.Mutex
	w     io.Writer
	on    bool
	shown bool
	last  time.Time
}

func (s *session) live() *live {
	return &live{w: s.err, on: isTerminal(s.err) && s.getenv("TERM") != "dumb"}
}

// set shows the line in place of the last one, ten times a second at most.
func (l *live) set(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.on || time.Since(l.last) < 100*time.Millisecond {
		return
	}
	l.last, l.shown = time.Now(), true
	fmt.Fprintf(l.w, "\r\x1b[K%s", text.Trim(visible(fmt.Sprintf(format, args...)), 110))
}

// say prints a line that stays, above the moving one.
func (l *live) say(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
	fmt.Fprintf(l.w, format+"\n", args...)
}

// end takes the moving line away.
func (l *live) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
}

func (l *live) clear() {
	if l.shown {
		fmt.Fprint(l.w, "\r\x1b[K")
		l.shown, l.last = false, time.Time{}
	}
}

// bar draws how much of something is done.
func bar(done, all uint64) string {
	const width = 24
	if all == 0 {
		return ""
	}
	full := int(min(done, all) * width / all)
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", width-full) + "]"
}
