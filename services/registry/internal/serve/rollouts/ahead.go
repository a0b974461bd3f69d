package rollouts

import (
	"iter"
	"time"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

const (
	// mostPassed is how many servers that do not fetch ahead one look passes at most without a rest after it.
	mostPassed = 1000
	// restAhead is how long that rest is.
	restAhead = 10 * time.Second
)

// rests takes the look for servers that could fetch ahead from a decision about a rollout while it rests: nothing waits
// for what is fetched ahead, and a look that passes 100,000 other servers must not be part of each decision. What it
// returns notes how far the look of a decision went.
func (w *Work) rests(id string, in rollout.Input) (rollout.Input, func(rollout.Decision)) {
	if in.Now.Before(w.rested[id]) {
		in.Unprimed = nil
		return in, func(rollout.Decision) {}
	}
	unprimed, seen := in.Unprimed, 0
	in.Unprimed = func() iter.Seq[string] {
		return func(yield func(string) bool) {
			for server := range unprimed() {
				if seen++; !yield(server) {
					return
				}
			}
		}
	}
	return in, func(d rollout.Decision) {
		if seen-len(d.Prime) > mostPassed {
			w.rested[id] = in.Now.Add(restAhead)
		}
	}
}
