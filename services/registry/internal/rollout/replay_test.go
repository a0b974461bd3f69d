package rollout_test

import (
	"iter"
	"time"

	"github.com/garrison-fleet/garrison/pkg/ledger"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

// replayer is a world that folds the ledger of a model again.
type replayer struct {
	*model
	engine *engine
}

func (r replayer) Apply(f ledger.Fact) bool {
	r.fold(r.engine, 1)
	return r.engine.position == int(f.Sequence)
}

func (r replayer) Decide(_ string, at time.Time) rollout.Decision { return r.ask(r.engine, at) }

// checkReplay checks that a replay comes to every decision that was recorded.
func (m *model) checkReplay() {
	facts := func() iter.Seq[ledger.Fact] {
		return func(yield func(ledger.Fact) bool) {
			for n, x := range m.log {
				if x.fact.Sequence = uint64(n) + 1; !yield(x.fact) {
					return
				}
			}
		}
	}
	steps := rollout.Replay(replayer{m, newEngine()}, "r", facts)
	for _, s := range steps {
		if !s.Same {
			m.Fatalf("recorded %v; the replay decides %+v", s.Fact, s.Decided)
		}
	}
	if len(steps) < m.decisions {
		m.Fatalf("%d of %d decisions are replayed", len(steps), m.decisions)
	}
}
