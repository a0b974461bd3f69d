// Package fsm is a state machine as one table: the table is the specification, Next is
// pure, and a test prints the diagram in a README from it. See the example of Table.
package fsm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Table maps a state and a fact to the next state. A pair that is not in the table cannot
// happen. A state without moves is an end, and must be in the table.
type Table[S, F cmp.Ordered] map[S]map[F]S

// Next returns the state after f. Its second result is false when f cannot happen in s.
func (t Table[S, F]) Next(s S, f F) (S, bool) {
	next, ok := t[s][f]
	if !ok {
		return s, false
	}
	return next, true
}

// End reports whether nothing more can happen in s.
func (t Table[S, F]) End(s S) bool {
	moves, ok := t[s]
	return ok && len(moves) == 0
}

// States returns every state, sorted.
func (t Table[S, F]) States() []S {
	seen := map[S]bool{}
	for s, moves := range t {
		seen[s] = true
		for _, next := range moves {
			seen[next] = true
		}
	}
	return sorted(seen)
}

// Facts returns every fact of the table, sorted.
func (t Table[S, F]) Facts() []F {
	seen := map[F]bool{}
	for _, moves := range t {
		for f := range moves {
			seen[f] = true
		}
	}
	return sorted(seen)
}

// Check returns an error for a state that is reached but has no row.
func (t Table[S, F]) Check() error {
	for _, s := range t.States() {
		if _, ok := t[s]; !ok {
			return fmt.Errorf("state %v is reached but has no row; an end needs an empty one", s)
		}
	}
	return nil
}

// Mermaid draws the table as a Mermaid state diagram, always in the same order.
func (t Table[S, F]) Mermaid(start S) string {
	var b strings.Builder
	fmt.Fprintf(&b, "stateDiagram-v2\n    [*] --> %v\n", start)
	for _, s := range t.States() {
		for _, f := range t.Facts() {
			if next, ok := t[s][f]; ok {
				fmt.Fprintf(&b, "    %v --> %v: %v\n", s, next, f)
			}
		}
		if t.End(s) {
			fmt.Fprintf(&b, "    %v --> [*]\n", s)
		}
	}
	return b.String()
}

func sorted[T cmp.Ordered](set map[T]bool) []T {
	out := make([]T, 0, len(set))
	for v := range set {
		out = append(out, v)
	}
	slices.Sort(out)
	return out
}
