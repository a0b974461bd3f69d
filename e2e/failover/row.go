package failover

import (
	"fmt"
	"slices"
	"time"
)

// Name names the loss or, of a total, its kind and how many losses it sums up.
func (r Row) Name() string {
	if r.Rows > 0 {
		return fmt.Sprintf("%s x%d", r.Loss.Kind, r.Rows)
	}
	return r.Loss.String()
}

// Percentile returns how long so many percent of sorted waits lasted at most; 0 without any.
func Percentile(waits []time.Duration, percent int) time.Duration {
	if len(waits) == 0 {
		return 0
	}
	return waits[(len(waits)-1)*percent/100]
}

// Totals sums up the rows of each kind that has several: the longest times, the percentiles of all intents, and the
// sums of everything that is counted.
func Totals(rows []Row) (totals []Row) {
	for _, r := range rows {
		n := slices.IndexFunc(totals, func(t Row) bool { return t.Loss.Kind == r.Loss.Kind })
		if n < 0 {
			n, totals = len(totals), append(totals, Row{Loss: Loss{Kind: r.Loss.Kind}})
		}
		totals[n].add(r)
	}
	return slices.DeleteFunc(totals, func(t Row) bool { return t.Rows < 2 })
}

func (r *Row) add(other Row) {
	r.Rows++
	r.Gap, r.Decided = max(r.Gap, other.Gap), max(r.Decided, other.Decided)
	r.Upgrade, r.Settled = max(r.Upgrade, other.Upgrade), max(r.Settled, other.Settled)
	r.Intents += other.Intents
	r.Waited = append(r.Waited, other.Waited...)
	slices.Sort(r.Waited)
	r.Started = append(r.Started, other.Started...)
	slices.Sort(r.Started)
	r.Verb = max(r.Verb, other.Verb)
	r.Wrong.add(other.Wrong)
}

func (w *Wrong) add(other Wrong) {
	w.Offline += other.Offline
	w.Lost += other.Lost
	w.Unheard += other.Unheard
	w.Doubled += other.Doubled
	w.Reads += other.Reads
	w.Verbs += other.Verbs
}
