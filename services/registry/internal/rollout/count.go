package rollout

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	rollouts "github.com/garrison-fleet/garrison/pkg/noun/rollout"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// Apply applies an event to a target and counts it in the rollout's record: the wave's counts, when it settled, and the
// comparison with servers that are not changed yet. It reports whether the target moved.
func Apply(r *rolloutv1.Rollout, t *rolloutv1.Target, e Event) bool {
	compare(r, t, e)
	from, to := Move(r, t, e)
	if from == to {
		return false
	}
	w := waveOf(r, t.Wave)
	count(w, from, -1)
	count(w, to, +1)
	if from == broken && w.Forgiven > 0 {
		w.Forgiven-- // perhaps not one that was forgiven, and then one more breaks the limit earlier
	}
	if from == broken && to == succeeded && t.Wave == rollouts.Current(r) {
		w.SettledAt = nil // it returned after all: it must stay healthy as long as the others
	}
	Settle(r, e.At)
	return true
}

// Place counts a target that a plan or an extension brings.
func Place(r *rolloutv1.Rollout, t *rolloutv1.Target) { count(waveOf(r, t.Wave), t.State, +1) }

// Settle notes when the wave that is open settled, or takes it back. It is called after each fact about the rollout
// itself; Apply calls it.
func Settle(r *rolloutv1.Rollout, at time.Time) {
	w := rollouts.Wave(r, rollouts.Current(r))
	switch {
	case w == nil || w.OpenedAt == nil:
	case !decided(r, w):
		w.SettledAt = nil
	case w.SettledAt == nil:
		w.SettledAt = timestamppb.New(at)
	}
}

// decided reports whether every server of a wave ended, or enough succeeded that the ones under way cannot change the
// verdict.
func decided(r *rolloutv1.Rollout, w *rolloutv1.Wave) bool {
	left := countOf(w, pending) + countOf(w, reached)
	if left == 0 {
		return true
	}
	percent := int(r.Strategy.GetSuccessPercent())
	return percent > 0 && countOf(w, succeeded)*100 >= percent*judged(w) && newlyBroken(r)+left <= mayBreak(r)
}

// judged returns how many servers of a wave its share of successes is taken of.
func judged(w *rolloutv1.Wave) int {
	return countOf(w, pending) + countOf(w, reached) + countOf(w, succeeded) + broke(w)
}

// broke returns how many servers of a wave are broken, without the forgiven ones.
func broke(w *rolloutv1.Wave) int { return max(0, countOf(w, broken)-int(w.GetForgiven())) }

// newlyBroken returns how many servers the rollout broke that count. Owed ones do not.
func newlyBroken(r *rolloutv1.Rollout) (n int) {
	for _, w := range r.Waves {
		n += broke(w)
	}
	return n
}

// mayBreak returns how many servers the rollout may break.
func mayBreak(r *rolloutv1.Rollout) int { return limit(r.Strategy.GetMaxBroken(), servers(r)) }

func servers(r *rolloutv1.Rollout) (n int) {
	for _, w := range r.Waves {
		n += int(w.Servers)
	}
	return n
}

// total returns how many servers of all waves are in a state.
func total(r *rolloutv1.Rollout, s rolloutv1.TargetState) (n int) {
	for _, w := range r.Waves {
		n += countOf(w, s)
	}
	return n
}

func waveOf(r *rolloutv1.Rollout, number uint32) *rolloutv1.Wave {
	if w := rollouts.Wave(r, number); w != nil {
		return w
	}
	if r.Owed == nil {
		r.Owed = &rolloutv1.Wave{}
	}
	return r.Owed
}

func countOf(w *rolloutv1.Wave, s rolloutv1.TargetState) int { return int(w.GetCounts()[uint32(s)]) }

func count(w *rolloutv1.Wave, s rolloutv1.TargetState, by int) {
	if w.Counts == nil {
		w.Counts = map[uint32]uint32{}
	}
	if n := countOf(w, s) + by; n > 0 {
		w.Counts[uint32(s)] = uint32(n)
	} else {
		delete(w.Counts, uint32(s))
	}
}
