package usual

import (
	"time"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

const (
	// Enough is how many changes of a kind must have succeeded before anything is derived from them.
	Enough = 20
	// Times is how many times what all but one in a hundred took a change may be under way.
	Times = 4
	// slowLink is the slowest link, in bytes a second, that an image is fetched over in time: a megabit.
	slowLink = 128 << 10
	// percent99 and half name the quantiles.
	percent99, half = 99, 50
)

// work is the key of the time that a whole change took without what depends on its server's link and on other programs.
const work = int32(taskv1.Step_STEP_UNSPECIFIED)

// Learn counts how long a change took that succeeded: the steps as its server reported them, and the whole from its
// assignment to its end. It returns the record, a new one for nil.
func Learn(
	r *dispatcherv1.DurationsRecord, whole time.Duration, steps []*taskv1.StepTime,
) *dispatcherv1.DurationsRecord {
	if r == nil {
		r = &dispatcherv1.DurationsRecord{Steps: map[int32]*dispatcherv1.Durations{}}
	}
	for step, took := range StepTimes(whole, steps) {
		key := int32(step)
		if r.Steps[key] == nil {
			r.Steps[key] = &dispatcherv1.Durations{}
		}
		add(r.Steps[key], took)
	}
	return r
}

// StepTimes returns how long each step of a change took. The unspecified step stands for the whole of it without the
// fetch and the wait for critical sections. Steps that no executor has are left out: a server may report any number.
func StepTimes(whole time.Duration, steps []*taskv1.StepTime) map[taskv1.Step]time.Duration {
	took := map[taskv1.Step]time.Duration{}
	for _, s := range steps {
		_, known := taskv1.Step_name[int32(s.GetStep())]
		if known && s.GetStep() != taskv1.Step_STEP_UNSPECIFIED {
			took[s.Step] += min(max(0, s.GetTook().AsDuration()), classes[len(classes)-1])
		}
	}
	rest := whole - took[taskv1.Step_STEP_FETCH] - took[taskv1.Step_STEP_DEFER]
	took[taskv1.Step_STEP_UNSPECIFIED] = max(0, rest)
	return took
}

// Known reports whether enough changes succeeded to derive something from them.
func Known(r *dispatcherv1.DurationsRecord) bool {
	of := r.GetSteps()[work]
	return total(of.GetCounts())+total(of.GetBefore()) >= Enough
}

// Median returns the median of a step, see StepTimes; false when too few changes did it.
func Median(r *dispatcherv1.DurationsRecord, step taskv1.Step) (time.Duration, bool) {
	of := r.GetSteps()[int32(step)]
	if total(of.GetCounts())+total(of.GetBefore()) < Enough {
		return 0, false
	}
	return quantile(of, half), true
}
