package testlog

import (
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Failure is a failed test, or a package that failed without one.
type Failure struct {
	Package string
	Test    string   // empty for the package
	Why     []string // lines
	File    string   // everything that the package printed
}

// Failures returns what failed, by package and test.
func (l *Log) Failures() (out []Failure) {
	for _, path := range slices.Sorted(maps.Keys(l.packages)) {
		if p := l.packages[path]; p.Failed || !p.ended {
			out = append(out, p.failures()...)
		}
	}
	return out
}

func (p *Package) failures() (out []Failure) {
	for _, name := range slices.Sorted(maps.Keys(p.tests)) {
		t := p.tests[name]
		why := t.words.why()
		switch {
		case t.action == "run" && !p.parent(name):
			why = append([]string{"    it did not end"}, why...)
		case t.action != "fail", why == nil && p.parent(name):
			continue
		case why == nil:
			why = t.words.end()
		}
		out = append(out, Failure{p.Path, name, why, p.File})
	}
	if why := p.tail.why(); why != nil || len(out) == 0 {
		if why == nil {
			why = p.tail.end()
		}
		out = append(out, Failure{p.Path, "", why, p.File})
	}
	return out
}

// parent reports whether a test has subtests that failed or did not end, which say why themselves.
func (p *Package) parent(name string) bool {
	for other, t := range p.tests {
		if strings.HasPrefix(other, name+"/") && (t.action == "fail" || t.action == "run") {
			return true
		}
	}
	return false
}

// Print writes a few lines for each failure, the first ones whole and the rest by name, so that a screen holds them.
func Print(to io.Writer, failures []Failure) {
	const whole = 5
	for i, f := range failures {
		name := f.Package
		if f.Test != "" {
			name += " " + f.Test
		}
		_, _ = fmt.Fprintln(to, "FAIL", name)
		if i >= whole {
			continue
		}
		for _, line := range f.Why {
			_, _ = fmt.Fprintln(to, line)
		}
		_, _ = fmt.Fprintln(to, "    log:", f.File)
	}
}

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
