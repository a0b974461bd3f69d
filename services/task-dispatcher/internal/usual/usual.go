// Package usual keeps how long changes of one kind usually take, such as the upgrades of an agent, and
// derives from it how long the next one may be under way.
//
// Durations are counted by classes that are a fifth apart, from a millisecond to a day. The newest
// window successful changes are counted in one generation of counts, and those before them in another:
// what is known rests on the last 256 to 511, and costs a few hundred bytes for each step.
//
// Guarantees:
//
//  1. Only changes that succeeded are counted. One that ran out of time shortens nothing.
//  2. Nothing is learnt from fewer than Enough.
//  3. A change has at least Times what all but one in a hundred took, within the bounds.
//  4. What a fleet on fast links shows is not applied to a slow one: while that is within the time of
//     unknown changes, a fetch has the time of a link of slowLink.
//  5. Quantiles are rounded up to the limit of their class, by a fifth at most.
//  6. A record is a function of the durations in their order, on every machine.
package usual

import (
	"maps"
	"math"
	"slices"
	"sort"
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

// window is how many durations a generation of counts has. Two generations are kept.
const window = 256

// classes are the longest durations of each class, ascending. They are computed from integers, as logarithms differ in
// their last bits between processors.
var classes = func() (all []time.Duration) {
	const octaves = 27 // from a millisecond to more than a day
	for octave := range octaves {
		for _, first := range []time.Duration{1_000_000, 1_189_207, 1_414_214, 1_681_793} {
			all = append(all, first<<octave)
		}
	}
	return all
}()

// classOf returns the class of a duration; what is longer than the last class is in that one.
func classOf(d time.Duration) uint32 {
	n := sort.Search(len(classes), func(n int) bool { return d <= classes[n] })
	return uint32(min(n, len(classes)-1)) //nolint:gosec // it is less than the number of classes
}

// add counts a duration. Once a generation is full, the one before it is forgotten.
func add(to *dispatcherv1.Durations, d time.Duration) {
	if to.Counts == nil {
		to.Counts = map[uint32]uint32{}
	}
	to.Counts[classOf(d)]++
	if total(to.Counts) >= window {
		to.Counts, to.Before = nil, to.Counts
	}
}

// quantile returns the duration that so many of a hundred took at most; zero without any.
func quantile(of *dispatcherv1.Durations, percent uint64) time.Duration {
	all := total(of.GetCounts()) + total(of.GetBefore())
	rank := (all*percent + 99) / 100
	both := maps.Clone(of.GetCounts())
	if both == nil {
		both = map[uint32]uint32{}
	}
	for class, n := range of.GetBefore() {
		both[class] += n
	}
	for _, class := range slices.Sorted(maps.Keys(both)) {
		if n := uint64(both[class]); n < rank {
			rank -= n
			continue
		}
		return classes[min(int(class), len(classes)-1)]
	}
	return 0
}

// total returns how many durations are counted.
func total(counts map[uint32]uint32) (n uint64) {
	for _, count := range counts {
		n += uint64(count)
	}
	return n
}

// Bounds bound how long a change may be under way.
type Bounds struct {
	Least, Most time.Duration // of what is learnt
	Unknown     time.Duration // while too little is known; between the others
}

// Change is a change that is assigned to a server.
type Change struct {
	Durations *dispatcherv1.DurationsRecord // of its kind; may be nil
	Bytes     uint64                        // the size of the image that it brings
	TimedOut  bool                          // the last change of its instance ran out of time
}

// Within returns how long a change may be under way, beside others on its server.
//
//	least ── 4 × what 99 of 100 took ──────────────────────────────────────────── most
//	      └─ or with a slow link, and what its server does meanwhile ── unknown ─┘
//
// The first line is learnt. What the second one adds is assumed, so it never exceeds the time of a change of which
// nothing is known. Such a change, and one whose predecessor ran out of time, has at least that.
func (b Bounds) Within(c Change, beside []Change) time.Duration {
	if !Known(c.Durations) {
		return b.Unknown
	}
	assumed := b.assumed(c)
	for _, other := range beside {
		assumed = sum(assumed, b.assumed(other))
	}
	if c.TimedOut {
		assumed = b.Unknown
	}
	learnt := sum(longest(c.Durations, work), longest(c.Durations, int32(taskv1.Step_STEP_FETCH)))
	return min(max(b.Least, learnt, min(assumed, b.Unknown)), b.Most)
}

// assumed returns how long a change may take on a server with a slow link.
func (b Bounds) assumed(c Change) time.Duration {
	if !Known(c.Durations) {
		return b.Unknown
	}
	fetch := time.Duration(math.MaxInt64)
	if seconds := c.Bytes / slowLink; seconds < uint64(b.Unknown/time.Second) {
		fetch = time.Duration(seconds+1) * time.Second //nolint:gosec // it is less than a duration
	}
	return sum(longest(c.Durations, work), max(fetch, longest(c.Durations, int32(taskv1.Step_STEP_FETCH))))
}

// longest returns how long a step may take.
func longest(r *dispatcherv1.DurationsRecord, step int32) time.Duration {
	return Times * quantile(r.GetSteps()[step], percent99)
}

// sum adds durations without overflow.
func sum(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
