package usual

import (
	"math"
	"time"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

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
