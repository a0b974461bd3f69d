// Package tally counts the outcomes of a crash test's interruptions, and prints them as a table of operations and
// steps. It also appends the sums to a file, which crash.sh prints by kind of change and of interruption.
package tally

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
)

// TotalsVariable names a file to which Print appends the sums, one line for each operation: how, kind, kills, old, new,
// bad, with tabs between. services/executor/crash.sh adds them up.
const TotalsVariable = "GARRISON_CRASH_TOTALS"

// Outcome is the result of an interruption.
type Outcome int

// The outcomes: the old version, the new one, or a broken promise.
const (
	Old Outcome = iota
	New
	Bad
)

// Tally is safe for concurrent use. Its title is the kind of interruption and, after a comma, the interrupted program.
type Tally struct {
	title      string
	operations []string

	mu   sync.Mutex
	rows map[row]*counts
}

type row struct{ operation, step string }

type counts struct{ kills, before, after, bad int }

// stepsInOrder are the rows of an operation.
var stepsInOrder = []string{
	"start", "check", "reserve", "fetch", "verify", "stage", "defer", "rehearse", "switch", "trial", "prove",
	"commit", "become", "undo", "sweep", "ended",
}

// Place returns the position of a step in a change; negative for an unknown one.
func Place(step string) int { return slices.Index(stepsInOrder, step) }

// Begin returns a tally of operations. The first word of each is its kind of change.
func Begin(title string, operations ...string) *Tally {
	return &Tally{title: title, operations: operations, rows: map[row]*counts{}}
}

// Add counts an interruption in a step of an operation.
func (t *Tally) Add(operation, step string, came Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.rows[row{operation, step}]
	if c == nil {
		c = &counts{}
		t.rows[row{operation, step}] = c
	}
	c.kills++
	switch came {
	case Bad:
		c.bad++
	case Old:
		c.before++
	default:
		c.after++
	}
}

// Print writes the table, adds it to the totals, and returns how many were bad.
func (t *Tally) Print(w io.Writer, took time.Duration) (bad int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(w, "\n%-20s %-8s %7s %7s %7s %5s\n", t.title, "step", "kills", "old", "new", "bad")
	var all counts
	var totals strings.Builder
	how, _, _ := strings.Cut(t.title, ",")
	for _, o := range t.operations {
		sum := t.printOne(w, o)
		all.add(sum)
		fmt.Fprintf(&totals, "%s\t%s\t%d\t%d\t%d\t%d\n", how, kindOf(o), sum.kills, sum.before, sum.after, sum.bad)
	}
	all.print(w, "all", "all")
	fmt.Fprintf(w, "%s: %d interruptions in %s, %d bad\n\n", t.title, all.kills, took.Round(time.Second), all.bad)
	return all.bad, appendTo(os.Getenv(TotalsVariable), totals.String())
}

// printOne writes the rows of an operation and returns their sum. Unknown steps come last.
func (t *Tally) printOne(w io.Writer, operation string) (sum counts) {
	steps := slices.Clone(stepsInOrder)
	for r := range t.rows {
		if r.operation == operation && !slices.Contains(steps, r.step) {
			steps = append(steps, r.step)
		}
	}
	for _, step := range steps {
		if c := t.rows[row{operation, step}]; c != nil {
			c.print(w, operation, step)
			sum.add(*c)
		}
	}
	sum.print(w, operation, "all")
	return sum
}

// kindOf returns the first word of an operation.
func kindOf(operation string) string {
	return strings.FieldsFunc(operation, func(r rune) bool { return !unicode.IsLetter(r) })[0]
}

func appendTo(path, lines string) error {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(lines)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

func (c *counts) add(o counts) {
	c.kills, c.before, c.after, c.bad = c.kills+o.kills, c.before+o.before, c.after+o.after, c.bad+o.bad
}

func (c counts) print(w io.Writer, operation, step string) {
	fmt.Fprintf(w, "%-20s %-8s %7d %7d %7d %5d\n", operation, step, c.kills, c.before, c.after, c.bad)
}
