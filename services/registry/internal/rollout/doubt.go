package rollout

import (
	"fmt"

	rollouts "github.com/garrison-fleet/garrison/pkg/noun/rollout"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// doubt returns which servers a rollout waits for that it changed and that are offline, when it would halt or begin the
// next wave untried if they stayed so; "" for none. They come back or count as broken within the strategy's silence, so
// it waits for a bounded time. Fewer of them hold nothing back: in a large fleet a few servers are offline at any time.
func doubt(in Input) string {
	silent := 0
	if in.Silent != nil {
		for range in.Silent() {
			silent++
		}
	}
	if silent == 0 || !decisive(in.Rollout, silent) {
		return ""
	}
	return fmt.Sprintf("%s that it changed and that %s silent, to come back or to count as broken",
		some(silent), are(silent))
}

// decisive reports whether so many servers more that are broken would halt a rollout, or would leave no server of the
// last wave that began. Which wave they are in is not counted: all may be in that one.
func decisive(r *rolloutv1.Rollout, silent int) bool {
	if newlyBroken(r)+silent > mayBreak(r) {
		return true
	}
	w := rollouts.Wave(r, current(r))
	if w.GetOpenedAt() == nil {
		w = rollouts.Wave(r, current(r)-1)
	}
	if w == nil || r.Strategy.GetEmergency() {
		return false
	}
	left := countOf(w, pending) + countOf(w, reached) + countOf(w, succeeded) - silent
	return left <= 0 || left*100 < int(r.Strategy.GetSuccessPercent())*judged(w)
}

// Hold returns a decision while it is not known which servers are offline: nothing is opened, passed, released or ended
// then, and the rollout waits for why. What halts it and what is broken holds. An empty why changes nothing. No fact
// records that a rollout waits, so replays need not know of it.
func (d Decision) Hold(r *rolloutv1.Rollout, why string) Decision {
	if why == "" {
		return d
	}
	if d.begins() {
		return Decision{Next: d.Next, Waits: why}
	}
	if r.GetState() == rolloutv1.State_STATE_RUNNING {
		d.waitFor(why)
	}
	return d
}

// begins reports whether a decision opens, passes, releases or ends something.
func (d Decision) begins() bool { return d.Open+d.Pass > 0 || len(d.Release) > 0 || d.Succeed }
