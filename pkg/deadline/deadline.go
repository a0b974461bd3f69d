// Package deadline is the arithmetic of a task's time: how long a task may be under way, and
// when the server stops trying by itself. The task-dispatcher and the executor share it, so
// that the server's own limit always comes before the end of the task.
//
//	assigned ── base ──────────────────── + what the image's own limits need ──▶ deadline
//	begun ───── fetch · stage · rehearse · switch · prove ──▶ own limit ── undo · report ──▶ deadline
//
// Guarantees:
//
//  1. An image whose limits are the default ones gets the base. Each limit that is longer
//     adds what it is longer, for bringing the new version and for bringing back the old one.
//  2. The server's own limit leaves Margin before the deadline, for the undo and its report;
//     a third of the time that is left at most, so that a short task has time to try.
//  3. A deadline that has passed by the server's clock is no limit: the clocks differ.
package deadline

import (
	"time"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

// The limits that an image has when it names none (image.proto).
const (
	defaultReady = 30 * time.Second
	defaultSoak  = time.Second
	defaultStop  = 10 * time.Second
	defaultBus   = 30 * time.Second
)

// Busy is how long critical sections on a server defer a change at most, where its environment does not set a limit.
const Busy = time.Hour

// reportWithin is the time for a report of the end to arrive and to be recorded.
const reportWithin = 15 * time.Second

// Extra returns how much longer than the base a task may be under way that brings an image in
// the place of another. Either may be nil.
func Extra(to, from *imagev1.Run) time.Duration {
	there := above(ready(to), defaultReady) + above(soak(to), defaultSoak) + above(stop(from), defaultStop)
	there += above(BusWithin(to), defaultBus)
	if to.GetRehearsal() != nil {
		there += above(ready(to), defaultReady)
	}
	back := above(stop(to), defaultStop)
	if from != nil {
		back += above(ready(from), defaultReady) + above(soak(from), defaultSoak)
	}
	return there + back
}

// Margin returns the time that the undo of such a task and its report may need.
func Margin(to, from *imagev1.Run) time.Duration {
	m := stop(to) + reportWithin
	if from != nil {
		m += ready(from) + soak(from)
	}
	return m
}

// Own returns when the server stops to try: margin before the deadline. A change without a
// deadline, or with one that has passed already, has the time within.
func Own(now, deadline time.Time, margin, within time.Duration) time.Time {
	left := deadline.Sub(now)
	if left <= 0 {
		return now.Add(within)
	}
	return deadline.Add(-min(margin, left/3))
}

// BusWithin returns how long the bus may stay away with an image that works, where it answered before the switch.
func BusWithin(r *imagev1.Run) time.Duration {
	return limit(r.GetReady().GetBusTimeoutMs(), defaultBus)
}

func ready(r *imagev1.Run) time.Duration { return limit(r.GetReady().GetTimeoutMs(), defaultReady) }
func soak(r *imagev1.Run) time.Duration  { return limit(r.GetReady().GetSoakMs(), defaultSoak) }
func stop(r *imagev1.Run) time.Duration  { return limit(r.GetStopTimeoutMs(), defaultStop) }

// limit returns a limit of an image, or the default one when it names none.
func limit(ms uint32, otherwise time.Duration) time.Duration {
	if ms == 0 {
		return otherwise
	}
	return time.Duration(ms) * time.Millisecond
}

func above(d, least time.Duration) time.Duration { return max(d-least, 0) }
