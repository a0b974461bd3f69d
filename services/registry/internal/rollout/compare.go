package rollout

import (
	"math"

	rollouts "github.com/garrison-fleet/garrison/pkg/noun/rollout"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// ratios are the rates of breaking, relative to servers that are not changed, against which equal rates are tested.
var ratios = [...]float64{2, 4, 8, 16}

// evidence reports whether an event counts in the comparison, and whether it is about a changed server.
func evidence(r *rolloutv1.Rollout, t *rolloutv1.Target, e Event) (changed, counts bool) {
	switch {
	case e.Kind == Unhealthy && next(r, t, e) == broken, e.Kind == Silent && in(t.State, reached, succeeded):
		return true, true
	}
	return false, t.State == pending && (e.Kind == Unhealthy || e.Kind == Away)
}

// compare counts a server that became unhealthy or silent, changed or not, as evidence. Ends of tasks are no evidence,
// because servers that are not changed have none.
func compare(r *rolloutv1.Rollout, t *rolloutv1.Target, e Event) {
	w := rollouts.Current(r)
	if t.Wave == 0 || r.Strategy.GetComparePermille() == 0 || rollouts.Wave(r, w).GetOpenedAt() == nil {
		return
	}
	changed, counts := evidence(r, t, e)
	if !counts {
		return
	}
	n1, n0 := float64(total(r, reached)+total(r, succeeded)), float64(total(r, pending))
	if n1 == 0 || n0 == 0 {
		return
	}
	if r.Comparison.GetWave() != w {
		r.Comparison = &rolloutv1.Comparison{Wave: w, Evidence: make([]int64, len(ratios))}
	}
	if changed {
		r.Comparison.Changed++
	} else {
		r.Comparison.Unchanged++
	}
	for i, ratio := range ratios {
		// The next server to break is a changed one with this chance, if they break at ratio times the rate.
		equal, worse := n1/(n1+n0), ratio*n1/(ratio*n1+n0)
		if !changed {
			equal, worse = 1-equal, 1-worse
		}
		r.Comparison.Evidence[i] += int64(math.Round(math.Log(worse/equal) * 1e6))
	}
}

// worse reports whether the evidence of the open wave is enough to halt.
func worse(r *rolloutv1.Rollout) bool {
	permille := r.Strategy.GetComparePermille()
	if permille == 0 || r.Comparison == nil || r.Comparison.Wave != rollouts.Current(r) {
		return false
	}
	var mean float64
	for _, e := range r.Comparison.Evidence {
		mean += math.Exp(float64(e)/1e6) / float64(len(ratios))
	}
	return mean >= 1000/float64(permille)
}
