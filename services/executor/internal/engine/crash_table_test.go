package engine

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// table counts what interruptions led to, by operation and step.
type table struct {
	mu   sync.Mutex
	rows map[row]*counts
}

type row struct{ operation, step string }

type counts struct{ kills, before, after, bad int }

// stepsInOrder are the rows of an operation.
var stepsInOrder = []string{"start", "check", "fetch", "verify", "stage", "switch", "prove", "commit", "undo", "sweep", "ended"}

func (t *table) add(o operation, r result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rows == nil {
		t.rows = map[row]*counts{}
	}
	c := t.rows[row{o.name, r.step}]
	if c == nil {
		c = &counts{}
		t.rows[row{o.name, r.step}] = c
	}
	c.kills++
	switch {
	case len(r.bad) > 0:
		c.bad++
	case r.now == r.had:
		c.before++
	default:
		c.after++
	}
}

// print writes the table and gives how many were bad.
func (t *table) print(w io.Writer, title string, took time.Duration) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(w, "\n%-20s %-8s %7s %7s %7s %5s\n", title, "step", "kills", "old", "new", "bad")
	var all counts
	for _, o := range operations {
		var sum counts
		for _, step := range stepsInOrder {
			if c := t.rows[row{o.name, step}]; c != nil {
				c.print(w, o.name, step)
				sum.add(*c)
			}
		}
		sum.print(w, o.name, "all")
		all.add(sum)
	}
	all.print(w, "all", "all")
	fmt.Fprintf(w, "%s: %d interruptions in %s, %d bad\n\n", title, all.kills, took.Round(time.Second), all.bad)
	return all.bad
}

func (c *counts) add(o counts) {
	c.kills, c.before, c.after, c.bad = c.kills+o.kills, c.before+o.before, c.after+o.after, c.bad+o.bad
}

func (c counts) print(w io.Writer, operation, step string) {
	fmt.Fprintf(w, "%-20s %-8s %7d %7d %7d %5d\n", operation, step, c.kills, c.before, c.after, c.bad)
}
