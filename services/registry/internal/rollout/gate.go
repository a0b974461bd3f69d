package rollout

import (
	"fmt"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	rollouts "github.com/garrison-fleet/garrison/pkg/noun/rollout"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// verdict returns why a rollout halts, or nil. It is as early as it can be: a share of successes that can no longer be
// reached halts while servers are under way. A wave that broke servers and changed none halts also below the budget,
// which is of all servers and can be larger than a canary wave; in an emergency the budget alone decides.
func verdict(r *rolloutv1.Rollout) *apiv1.Refusal {
	if n, most := newlyBroken(r), mayBreak(r); n > most {
		return halt(code.TooManyBroken, "newly broken: %d of %d servers; %d is the limit", n, servers(r), most)
	}
	wave := current(r)
	w := rollouts.Wave(r, wave)
	if w.GetOpenedAt() == nil {
		return nil
	}
	best := countOf(w, pending) + countOf(w, reached) + countOf(w, succeeded)
	if percent := int(r.Strategy.GetSuccessPercent()); best*100 < percent*judged(w) {
		return halt(code.TooFewSucceed, "%d of the %d servers of wave %d %s broken, so %d %% can no longer succeed",
			broke(w), judged(w), wave, are(broke(w)), percent)
	}
	if best == 0 && broke(w) > 0 && int(wave) < len(r.Waves) && !r.Strategy.GetEmergency() {
		return halt(code.TooFewSucceed,
			"no server of wave %d succeeded and %d %s broken, so wave %d would begin untried",
			wave, broke(w), are(broke(w)), wave+1)
	}
	if worse(r) {
		return halt(code.WorseThanUnchanged,
			"unhealthy or silent since wave %d began: %d of %d changed servers, and %d of %d others",
			wave, r.Comparison.Changed, int(r.Comparison.Changed)+total(r, reached)+total(r, succeeded),
			r.Comparison.Unchanged, int(r.Comparison.Unchanged)+total(r, pending))
	}
	return nil
}

func halt(code, format string, args ...any) *apiv1.Refusal {
	return &apiv1.Refusal{Code: code, Component: "registry", Message: fmt.Sprintf(format, args...)}
}

// gate passes the wave that is open, or says what it waits for.
func gate(in Input, d Decision, wave uint32, w *rolloutv1.Wave) Decision {
	if wave == uint32(len(in.Rollout.Waves)) && enough(&d, in) {
		d.Pass = wave
		return d
	}
	if w.SettledAt == nil {
		d.Waits = unsettled(wave, w)
		return d
	}
	end := w.SettledAt.AsTime().Add(soakOf(in.Rollout, wave))
	if end.After(in.Now) {
		d.at(end)
		d.Waits = fmt.Sprintf("the servers of wave %d to stay healthy until %s", wave, end.UTC().Format(time.RFC3339))
		return d
	}
	d.Pass = wave
	return d
}

// unsettled returns how far the servers of a wave are.
func unsettled(wave uint32, w *rolloutv1.Wave) string {
	text := fmt.Sprintf("the servers of wave %d: ", wave)
	if w.Servers == 1 {
		text = fmt.Sprintf("the server of wave %d: ", wave)
	}
	text += fmt.Sprintf("%d of %d succeeded", countOf(w, succeeded), w.Servers)
	if n := countOf(w, reached); n > 0 {
		text += fmt.Sprintf(", %d under way", n)
	}
	if n := countOf(w, pending); n > 0 {
		text += fmt.Sprintf(", %d pending", n)
	}
	return text
}

// enough reports whether the rollout may end although servers are left: the strategy's share of its servers succeeded,
// and its time since the last wave began has passed.
func enough(d *Decision, in Input) bool {
	r := in.Rollout
	if r.Strategy.GetDonePercent() == 0 || r.Strategy.DonePercent == 100 {
		return false
	}
	last := uint32(len(r.Waves))
	opened := rollouts.Wave(r, last).GetOpenedAt()
	all := servers(r) - total(r, gone) - total(r, leftOut)
	if opened == nil || total(r, succeeded)*100 < int(r.Strategy.DonePercent)*all {
		return false
	}
	end := opened.AsTime().Add(max(r.Strategy.GetDoneAfter().AsDuration(), soakOf(r, last)))
	if end.After(in.Now) {
		d.at(end)
		return false
	}
	return true
}
