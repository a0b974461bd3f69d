package testlog

import (
	"fmt"
	"io"
	"maps"
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
