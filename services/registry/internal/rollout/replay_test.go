package rollout_test

import (
	"time"

	"github.com/garrison-fleet/garrison/pkg/ledger"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

// checkReplay checks that a replay comes to every decision that was recorded.
func (m *model) checkReplay() {
	replay := rollout.NewReplay(func(yield func(ledger.Fact) bool) {
		for _, x := range m.log {
			if x.server == "" && !yield(x.fact) {
				return
			}
		}
	})
	e := newEngine()
	for n := range m.log {
		replay.Before(uint64(n)+1, func(at time.Time) rollout.Decision { return m.ask(e, at) })
		m.fold(e, 1)
	}
	for _, s := range replay.Steps() {
		if !s.Same {
			m.Fatalf("recorded %v; the replay decides %+v", s.Fact, s.Decided)
		}
	}
	if n := len(replay.Steps()); n != m.decisions || n > 0 && replay.End() > uint64(len(m.log)) {
		m.Fatalf("%d of %d decisions are replayed", n, m.decisions)
	}
}
