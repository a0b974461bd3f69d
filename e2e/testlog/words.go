package testlog

import (
	"regexp"
	"slices"
	"strings"
)

const (
	mostLines = 400 // kept of a test: half from its beginning, half from its end
	mostWhy   = 6   // lines that say why a test failed
	mostTail  = 15  // lines of a package whose output alone says why
)

// words is the lines that a test or a package printed, without those in the middle of very many.
type words struct {
	first, last []string
	part        string // of a line that has not ended
}

func (w *words) add(text string) {
	if w.part += text; !strings.HasSuffix(w.part, "\n") {
		return
	}
	line := strings.TrimRight(w.part, "\n")
	if w.part = ""; len(w.first) < mostLines/2 {
		w.first = append(w.first, line)
		return
	}
	if w.last = append(w.last, line); len(w.last) > mostLines/2 {
		w.last = slices.Delete(w.last, 0, 1)
	}
}

func (w *words) lines() []string {
	if w == nil {
		return nil
	}
	all := slices.Concat(w.first, w.last)
	if w.part != "" {
		all = append(all, w.part)
	}
	return all
}

var (
	frame     = regexp.MustCompile(`^\s*(=== (RUN|PAUSE|CONT|NAME)|--- (FAIL|PASS|SKIP))`)
	assertion = regexp.MustCompile(`^\s+[\w.-]+\.go:\d+: `)
	crash     = regexp.MustCompile(`^(panic: |fatal error: |WARNING: DATA RACE|signal: )`)
)

// why returns the lines that say why a test failed: a crash, or its last assertion, which ended it.
func (w *words) why() []string {
	lines := slices.DeleteFunc(w.lines(), func(l string) bool {
		return frame.MatchString(l) || strings.TrimSpace(l) == ""
	})
	at := slices.IndexFunc(lines, crash.MatchString)
	for i := len(lines) - 1; i >= 0 && at < 0; i-- {
		if assertion.MatchString(lines[i]) {
			at = i
		}
	}
	if at < 0 {
		return nil
	}
	return lines[at:min(at+mostWhy, len(lines))]
}

// end returns the last lines.
func (w *words) end() []string {
	lines := w.lines()
	return lines[max(0, len(lines)-mostTail):]
}
