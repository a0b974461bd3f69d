package bus

import (
	"strings"

	"github.com/garrison-fleet/garrison/pkg/topology"
)

// footprint is what the units of a batch, and those held back before, guard and write.
//
// A batch is checked as a whole against the state before it. So a unit may not go with
// another one when one of the two writes what the other guards. Units that have a guard
// in common that none of them writes, such as a claim under which many act, do go together.
type footprint struct {
	written map[string]bool // subjects, and each with * for its last token, which is how keys are guarded
	guarded map[string]bool // guards
	wide    map[string]bool // guards with other wildcards than one * at the end
}

func newFootprint() *footprint {
	return &footprint{written: map[string]bool{}, guarded: map[string]bool{}, wide: map[string]bool{}}
}

// collides reports whether a unit writes what is guarded here, or guards what is written here.
func (f *footprint) collides(u *unit) bool {
	for _, g := range u.guards {
		if f.written[g] || isWide(g) && f.writesInto(g) {
			return true
		}
	}
	if len(f.guarded) == 0 {
		return false
	}
	for _, m := range u.msgs {
		if f.guarded[m.Subject] || f.guarded[keyOf(m.Subject)] {
			return true
		}
		for g := range f.wide {
			if topology.Matches(g, m.Subject) {
				return true
			}
		}
	}
	return false
}

func (f *footprint) writesInto(guard string) bool {
	for subject := range f.written {
		if topology.Matches(guard, subject) {
			return true
		}
	}
	return false
}

// add adds what a unit guards and writes.
func (f *footprint) add(u *unit) {
	for _, g := range u.guards {
		f.guarded[g] = true
		if isWide(g) {
			f.wide[g] = true
		}
	}
	for _, m := range u.msgs {
		f.written[m.Subject], f.written[keyOf(m.Subject)] = true, true
	}
}

// keyOf returns a subject with * for its last token.
func keyOf(subject string) string { return subject[:strings.LastIndexByte(subject, '.')+1] + "*" }

// isWide reports whether a guard has wildcards that are not just a * at the end.
func isWide(guard string) bool { return strings.ContainsAny(strings.TrimSuffix(guard, "*"), "*>") }
