package usual

import (
	"maps"
	"slices"
	"sort"
	"time"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
)

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
