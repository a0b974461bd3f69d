package rollout

import (
	"iter"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// World is what decisions of a replay rest on: an empty view that folds facts, and decides as the registry does.
type World interface {
	Apply(f ledger.Fact) bool
	Decide(rollout string, at time.Time) Decision
}

// Replayed is one recorded decision about a rollout, beside what is decided on the same facts now.
type Replayed struct {
	Fact    ledger.Fact
	Decided Decision
	Same    bool
}

// Replay folds the ledger into a world and makes each decision about a rollout again, on the facts and at the time that
// its Basis names. Facts must return the whole ledger from its beginning, each time it is called. Replay calls it
// twice and stops at the last decision.
func Replay(w World, rollout string, facts func() iter.Seq[ledger.Fact]) []Replayed {
	var all []Replayed
	for f := range facts() {
		if f.Noun == ledger.Rollout && f.Key == rollout && basisOf(f.Body) != nil {
			all = append(all, Replayed{Fact: f})
		}
	}
	done := 0
	decide := func(next uint64) {
		for done < len(all) && basisOf(all[done].Fact.Body).Sequence < next {
			s := &all[done]
			s.Decided = w.Decide(rollout, basisOf(s.Fact.Body).At.AsTime())
			s.Same = same(s.Fact.Body, s.Decided)
			done++
		}
	}
	for f := range facts() {
		if decide(f.Sequence); done == len(all) {
			break
		}
		w.Apply(f)
	}
	return all
}

// basisOf returns what a decision rested on; nil for any other fact.
func basisOf(body proto.Message) *rolloutv1.Basis {
	if b, ok := body.(interface{ GetBasis() *rolloutv1.Basis }); ok {
		return b.GetBasis()
	}
	return nil
}

// same reports whether a recorded fact is what was decided. A registry may release fewer servers than the engine
// names, where the intents of all would not fit into one batch.
func same(body proto.Message, d Decision) bool {
	switch b := body.(type) {
	case *rolloutv1.Opened:
		return d.Open == b.Wave
	case *rolloutv1.Passed:
		return d.Pass == b.Wave
	case *rolloutv1.Halted:
		return d.Halt != nil && d.Wave == b.Wave && proto.Equal(d.Halt, b.Reason)
	case *rolloutv1.Succeeded:
		return d.Succeed && d.Owed == b.Owed
	case *rolloutv1.Silenced:
		return len(d.Silence) > 0 && slices.Equal(d.Silence, b.ServerIds)
	case *rolloutv1.Released:
		return d.Wave == b.Wave && len(b.ServerIds) > 0 && !slices.ContainsFunc(b.ServerIds, func(id string) bool {
			return !slices.Contains(d.Release, id)
		})
	}
	return false
}
