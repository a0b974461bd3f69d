package forecast

import (
	"slices"
	"time"

	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// Outlook is what many runs of a world showed.
type Outlook struct {
	Runs, Halts, Succeeded int
	Took50, Took90         time.Duration  // until the end, of the runs that succeeded
	Halted50, Halted90     time.Duration  // until the halt, of the runs that halted
	Touched50, Touched90   int            // servers that were changed by then
	Broken50, Broken90     int            // servers that broke
	AtOnce                 int            // the most servers that were under way at once
	HaltedIn               map[uint32]int // runs by the wave that halted
	Why                    map[string]int // runs by the code of the halt
}

// Runs runs a world so many times, each with another seed. It runs no more once stop is closed.
func Runs(stop <-chan struct{}, w World, runs int) (Outlook, error) {
	o := Outlook{HaltedIn: map[uint32]int{}, Why: map[string]int{}}
	var took, halted []time.Duration
	var touched, broken []int
	for n := range runs {
		w := w
		w.Seed += uint64(n) * 1_000_003
		w.stop = stop
		r, err := Run(w)
		if err != nil {
			return Outlook{}, err
		}
		if w.stopped() { // the run may have been cut short
			break
		}
		o.Runs++
		o.AtOnce = max(o.AtOnce, r.AtOnce)
		touched, broken = append(touched, r.Touched), append(broken, r.Broken)
		switch r.State {
		case rolloutv1.State_STATE_HALTED:
			halted = append(halted, r.Took)
			o.Halts++
			o.HaltedIn[r.Wave]++
			o.Why[r.Halt.GetCode()]++
		case rolloutv1.State_STATE_SUCCEEDED:
			took = append(took, r.Took)
			o.Succeeded++
		}
	}
	return o.with(took, halted, touched, broken), nil
}

func (o Outlook) with(took, halted []time.Duration, touched, broken []int) Outlook {
	o.Took50, o.Took90 = quantiles(took)
	o.Halted50, o.Halted90 = quantiles(halted)
	o.Touched50, o.Touched90 = quantiles(touched)
	o.Broken50, o.Broken90 = quantiles(broken)
	return o
}

// quantiles returns the median and the 90th percentile; zero without values.
func quantiles[T int | time.Duration](values []T) (half, most T) {
	if len(values) == 0 {
		return 0, 0
	}
	slices.Sort(values)
	return values[len(values)/2], values[min(len(values)-1, len(values)*9/10)]
}
