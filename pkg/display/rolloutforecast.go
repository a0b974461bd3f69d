package display

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/keep"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/noun/rollout"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// RolloutReplay lists the decisions of a rollout with what they came out as when they were made again.
var RolloutReplay = listing.Listing[*registryv1.ReplayedDecision]{
	Name: func(d *registryv1.ReplayedDecision) string { return fmt.Sprint(d.GetSequence()) },
	Columns: []listing.Column[*registryv1.ReplayedDecision]{
		listing.Col("SEQUENCE", func(d *registryv1.ReplayedDecision) string {
			return fmt.Sprint(d.GetSequence())
		}).Numeric(),
		listing.Col("AT", func(d *registryv1.ReplayedDecision) string { return listing.Stamp(d.GetBasis().GetAt()) }),
		listing.Col("RECORDED", (*registryv1.ReplayedDecision).GetRecorded),
		listing.Col("AGAIN", func(d *registryv1.ReplayedDecision) string {
			if d.GetSame() {
				return "the same"
			}
			return d.GetDecided()
		}),
	},
}

// RolloutForecast is the columns of a forecast.
var RolloutForecast = listing.Listing[*registryv1.ForecastRolloutResponse]{
	Name: func(f *registryv1.ForecastRolloutResponse) string { return fmt.Sprint(f.GetSucceeded()) },
	Columns: []listing.Column[*registryv1.ForecastRolloutResponse]{
		listing.Col("RUNS", func(f *registryv1.ForecastRolloutResponse) string {
			return fmt.Sprint(f.GetRuns())
		}).Numeric(),
		listing.Col("SUCCEEDED", func(f *registryv1.ForecastRolloutResponse) string {
			return fmt.Sprint(f.GetSucceeded())
		}).Numeric(),
		listing.Col("HALTED", func(f *registryv1.ForecastRolloutResponse) string {
			return fmt.Sprint(f.GetHalted())
		}).Numeric(),
	},
}

// ForecastPairs returns the figures of a forecast: each in half of the runs, and in nine of ten of them, at most.
func ForecastPairs(f *registryv1.ForecastRolloutResponse) (pairs [][2]string) {
	add := func(title, format string, args ...any) {
		pairs = append(pairs, [2]string{title, fmt.Sprintf(format, args...)})
	}
	if f.GetSucceeded() > 0 {
		add("TAKES", "%s%s", span(f.GetTook_50().AsDuration(), f.GetTook_90().AsDuration(), ", "), atOnce(f))
	}
	if n := f.GetRuns() - min(f.GetRuns(), f.GetSucceeded()+f.GetHalted()); n > 0 {
		add("DOES NOT END", "in %s: look at the budgets and gates", listing.Plural(int(n), "run"))
	}
	if f.GetHalted() > 0 {
		add("HALTS AFTER", "%s", span(f.GetHalted_50().AsDuration(), f.GetHalted_90().AsDuration(), ", "))
		add("HALTS IN", "%s", tally(f.GetHaltedIn(), func(n uint32) string { return fmt.Sprint("wave ", n) }))
		add("HALTS BECAUSE", "%s", tally(f.GetHaltedBecause(), func(code string) string { return code }))
	}
	add("CHANGES", "%s (50 %%), %d (90 %%)", listing.Plural(int(f.GetTouched_50()), "server"), f.GetTouched_90())
	add("BREAKS", "%s (50 %%), %d (90 %%)", listing.Plural(int(f.GetBroken_50()), "server"), f.GetBroken_90())
	if f.GetTasks() == 0 {
		add("RESTS ON", "no task like these of the last 7 days; 20 s for each were assumed")
	} else {
		add("RESTS ON", "%s", restsOn(f))
	}
	return pairs
}

// tally lists how many runs each key counts, by key.
func tally[K uint32 | string](counts map[K]uint32, name func(K) string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s (%s)", name(k), listing.Plural(int(counts[k]), "run")))
	}
	return strings.Join(parts, ", ")
}

// TakesText returns how long a planned rollout takes, or that it does not end, in one line; empty when that is not
// known.
func TakesText(f *registryv1.ForecastRolloutResponse) string {
	runs := listing.Plural(int(f.GetRuns()), "run")
	switch {
	case f.GetRuns() == 0:
		return ""
	case f.GetSucceeded() == 0 && f.GetHalted() == 0:
		return "does not end in any of " + runs + ": look at the budgets and gates"
	case f.GetSucceeded() == 0 && f.GetTasks() < fewTasks:
		return "no forecast: it would rest on " + restsOn(f)
	case f.GetSucceeded() == 0:
		return fmt.Sprintf("halts in %d of %s; from %s", f.GetHalted(), runs, restsOn(f))
	}
	halts := ""
	if f.GetHalted() > 0 {
		halts = fmt.Sprintf("halts in %d of %s, or ", f.GetHalted(), runs)
	}
	rests := "from " + restsOn(f)
	if f.GetTasks() == 0 {
		rests = "no task like these was recorded in the last 7 days, so 20 s for each server were assumed"
	}
	return fmt.Sprintf("%stakes %s once it has begun%s; %s", halts,
		span(f.GetTook_50().AsDuration(), f.GetTook_90().AsDuration(), ", "), atOnce(f), rests)
}

// fewTasks is how many tasks are too few to foretell from that a rollout never succeeds.
const fewTasks = 20

// restsOn returns from which tasks a forecast was made.
func restsOn(f *registryv1.ForecastRolloutResponse) string {
	text := listing.Plural(int(f.GetTasks()), "task") + " of the last 7 days"
	if f.GetFailedPermille() > 0 {
		text += fmt.Sprintf(", %.1f %% of which failed", float64(f.GetFailedPermille())/10)
	}
	if f.GetTasks() < fewTasks {
		text += ", which is little"
	}
	return text
}

// atOnce returns how many servers a forecast changes at once; empty from a registry that does not count them.
func atOnce(f *registryv1.ForecastRolloutResponse) string {
	if f.GetSlots() == 0 {
		return ""
	}
	text := ", at most " + listing.Plural(int(f.GetSlots()), "server") + " at once"
	if n := f.GetBusy() + f.GetBeside(); n > 0 {
		text += " beside " + listing.Plural(int(n), "change") + " of others"
	}
	return text
}

// TightBudget returns how a keep budget holds part of a plan back.
func TightBudget(b *registryv1.TightBudget) string {
	group := b.GetKeep().GetField() + " " + cmp.Or(b.GetValue(), "none")
	if e := b.GetEnvironment(); e != "" && b.GetKeep().GetField() == "env" {
		group = "environment " + e
	} else if e != "" {
		group += " of environment " + e
	}
	text := fmt.Sprintf("%s: %d of %d servers work, and %d must: ", group, b.GetWorking(), b.GetAll(), b.GetNeeded())
	if keep.NeedsAll(int(b.GetNeeded()), int(b.GetAll())) {
		return text + "no working server there can ever change; the rollout waits until the keep budget is smaller"
	}
	spare := max(0, int(b.GetWorking())-int(b.GetNeeded()))
	return text + fmt.Sprintf("the rollout changes %d of them, at most %d at once", b.GetChanges(), spare)
}

// LeftText returns how long a rollout goes on from a time; empty when that is not known, and once it halted or ended.
// What a person is to do may come at any time.
func LeftText(r *registryv1.GetRolloutResponse, at time.Time) string {
	left50, left90 := r.GetLeft_50().AsDuration(), r.GetLeft_90().AsDuration()
	switch need := rollout.NeedAt(r.GetRollout(), at); {
	case rollout.Ended(r.GetRollout().GetState()) || need == rollout.NeedsDecision:
		return ""
	case need != rollout.NeedsNothing:
		return "unknown: it waits for a person"
	case r.GetLeft_50() == nil:
		return ""
	case left90 < time.Second && r.GetSlowCount() > 0:
		return "unknown: " + listing.Plural(int(r.GetSlowCount()), "change") + " longer under way than usual"
	case left90 < time.Second:
		return "soon"
	case left50 < time.Second:
		return fmt.Sprintf("at most %s (90 %%)", listing.Span(left90))
	}
	return span(left50, left90, " to ")
}

// span returns what half of the runs take at most, and nine of ten; one figure where they are equal.
func span(half, most time.Duration, between string) string {
	if listing.Span(half) == listing.Span(most) {
		return listing.Span(most)
	}
	return listing.Span(half) + " (50 %)" + between + listing.Span(most) + " (90 %)"
}

// SlowText returns a server that takes long.
func SlowText(s *registryv1.SlowServer) string {
	return fmt.Sprintf("%s: %s %s for %s; the median is %s", s.GetServerName(), s.GetAgent(), s.GetStep(),
		listing.Span(s.GetTook().AsDuration()), listing.Span(s.GetMedian().AsDuration()))
}
