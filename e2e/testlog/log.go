// Package testlog reads what go test -json prints and keeps what a person needs when a test fails: the failed tests,
// the first words of why, and a file with everything that its package printed.
//
//  1. A failed package is never lost: without a failed test, the end of its output says why.
//  2. A test that began and did not finish is named, because it is what a time-out or a crash cut off.
//  3. Memory is bounded: the words of a test and the end of a package are cut, files hold all of it.
package testlog

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// event is one line of go test -json; see go doc test2json.
type event struct {
	Action      string
	Package     string
	ImportPath  string // of a build
	Test        string
	Output      string
	Elapsed     float64 // seconds
	FailedBuild string
}

// Package is the result of the tests of a package.
type Package struct {
	Path    string
	Failed  bool
	Elapsed time.Duration
	CPU     time.Duration // as PrintCPU printed it
	Passed  int           // tests, without subtests
	Skipped int
	File    string // everything that it printed; kept for a failed package
	ended   bool   // otherwise go test was cut off
	tests   map[string]*test
	tail    words // what it printed outside of tests
	out     *os.File
}

type test struct {
	action string // "run" until it ends
	words  words
}

// Log collects the results of packages.
type Log struct {
	dir      string // of the files
	packages map[string]*Package
	builds   map[string]*words // what the compiler printed, by import path
	done     func(*Package)
	other    words // lines that are no event
}

// New returns an empty log that writes files into a directory and calls done for each package that ended.
func New(dir string, done func(*Package)) *Log {
	return &Log{dir: dir, packages: map[string]*Package{}, builds: map[string]*words{}, done: done}
}

// Read reads events until the end of the input.
func (l *Log) Read(from io.Reader) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			if err := l.add(line); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read the events of go test: %w", err)
		}
	}
}

func (l *Log) add(line []byte) error {
	var e event
	if json.Unmarshal(line, &e) != nil || e.Action == "" {
		l.other.add(string(line))
		return nil
	}
	if e.Package == "" {
		if e.Action == "build-output" {
			l.build(e.ImportPath).add(e.Output)
		}
		return nil
	}
	p, err := l.pack(e.Package)
	if err != nil {
		return err
	}
	switch e.Action {
	case "output":
		return p.print(e)
	case "run":
		p.test(e.Test).action = "run"
	case "pass", "fail", "skip":
		if e.Test != "" {
			p.test(e.Test).action = e.Action
			return nil
		}
		return l.end(p, e)
	}
	return nil
}

func (l *Log) build(path string) *words {
	if l.builds[path] == nil {
		l.builds[path] = &words{}
	}
	return l.builds[path]
}

func (l *Log) pack(path string) (*Package, error) {
	if p, ok := l.packages[path]; ok {
		return p, nil
	}
	file, err := os.Create(filepath.Join(l.dir, strings.ReplaceAll(path, "/", "_")+".log"))
	if err != nil {
		return nil, fmt.Errorf("create the log of %s: %w", path, err)
	}
	p := &Package{Path: path, File: file.Name(), tests: map[string]*test{}, out: file}
	l.packages[path] = p
	return p, nil
}

func (p *Package) test(name string) *test {
	if p.tests[name] == nil {
		p.tests[name] = &test{action: "run"}
	}
	return p.tests[name]
}

// cpuLine is what PrintCPU prints.
const cpuLine = "testlog: %d ms of CPU\n"

// PrintCPU prints, among the output of a package's tests, the CPU time that they took.
func PrintCPU(to io.Writer, cpu time.Duration) { _, _ = fmt.Fprintf(to, cpuLine, cpu.Milliseconds()) }

func (p *Package) print(e event) error {
	var ms time.Duration
	if n, _ := fmt.Sscanf(e.Output, cpuLine, &ms); n == 1 {
		p.CPU = ms * time.Millisecond
		return nil
	}
	if e.Test != "" {
		p.test(e.Test).words.add(e.Output)
	} else {
		p.tail.add(e.Output)
	}
	if _, err := p.out.WriteString(e.Output); err != nil {
		return fmt.Errorf("write the log of %s: %w", p.Path, err)
	}
	return nil
}

// end closes a package, whose file stays only when it failed.
func (l *Log) end(p *Package, e event) error {
	p.ended = true
	p.Failed, p.Elapsed = e.Action == "fail", time.Duration(e.Elapsed*float64(time.Second))
	for _, line := range l.builds[e.FailedBuild].lines() {
		p.tail.add(line + "\n")
		_, _ = fmt.Fprintln(p.out, line)
	}
	for name, t := range p.tests {
		switch {
		case strings.Contains(name, "/"):
		case t.action == "pass":
			p.Passed++
		case t.action == "skip":
			p.Skipped++
		}
		if !p.Failed {
			delete(p.tests, name)
		}
	}
	err := p.out.Close()
	if !p.Failed {
		err = errors.Join(err, os.Remove(p.File))
	}
	l.done(p)
	return err
}

// Other returns the lines that are no events.
func (l *Log) Other() []string { return l.other.lines() }

// Packages returns the packages, the slowest first.
func (l *Log) Packages() []*Package {
	var out []*Package
	for _, p := range l.packages {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *Package) int {
		return cmp.Or(cmp.Compare(b.Elapsed, a.Elapsed), strings.Compare(a.Path, b.Path))
	})
	return out
}
