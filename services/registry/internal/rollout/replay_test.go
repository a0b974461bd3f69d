package rollout_test

import (
	"github.com/garrison-fleet/garrison/pkg/ledger"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

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
		replay.Before(uint64(n)+1, func(b *rolloutv1.Basis) rollout.Decision {
			return m.ask(e, b.At.AsTime())
		})
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
