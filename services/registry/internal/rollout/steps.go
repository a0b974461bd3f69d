package rollout

import (
	"iter"
	"time"

	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// The changes of a server are made in steps, so that what they require of each other holds at any moment: each step
// begins after every change of the one before succeeded. A rollout that halts in between leaves the server as it was
// after a whole step.

// StepOf returns the step of a change.
func StepOf(c *rolloutv1.Change) uint32 { return max(c.GetStep(), 1) }

// NextStep returns the step of a server's changes whose turn it is, or 0 for none. It is never the first one, which
// begins when the server is released.
func NextStep(t *rolloutv1.Target) (next uint32) {
	if t.GetState() != reached || t.Step == 0 {
		return 0
	}
	for i, c := range t.Changes {
		switch step := StepOf(c); {
		case step > t.Step && (next == 0 || step < next):
			next = step
		case step <= t.Step && !done(t, i):
			return 0
		}
	}
	return next
}

// done reports whether a change succeeded, and its agent was observed after it where an observation is awaited.
func done(t *rolloutv1.Target, change int) bool {
	return change < len(t.Done) && t.Done[change] && (change >= len(t.Awaited) || t.Awaited[change] == 0)
}

// ending reports whether every change of the steps that began ended.
func ending(t *rolloutv1.Target) bool {
	for i, c := range t.Changes {
		if StepOf(c) <= max(t.Step, 1) && !t.Done[i] {
			return false
		}
	}
	return true
}

const succeededAlready = rolloutv1.State_STATE_SUCCEEDED

// advance begins the next step on servers that are under way.
func (d *Decision) advance(in Input) {
	if in.Due == nil {
		return
	}
	door := doors{in: in}
	for t := range in.Due() {
		step := NextStep(t)
		late := in.Rollout.State == succeededAlready // it can no longer halt
		switch {
		case step == 0, late && in.refused(t.ServerId) != nil, door.shut(t.ServerId):
			continue
		case len(d.Release) > 0 && (step != d.Step || t.Wave != d.Wave):
			continue
		}
		d.Wave, d.Step = t.Wave, step
		if d.Release = append(d.Release, t.ServerId); len(d.Release) == Batch {
			return
		}
	}
	door.note(d)
}

// Restores returns which changes of a broken target are to be undone next: those of the last step that still hold, once
// the ones behind it are back. holds reports whether a change
// is what is wanted of its agent, settled whether its agent is as it is wanted.
func Restores(t *rolloutv1.Target, holds, settled func(change int) bool) (changes []int) {
	last := uint32(0)
	for i := range t.IntentIds {
		last = max(last, StepOf(t.Changes[i]))
	}
	for step := last; step > 0; step-- {
		ready := true
		for i := range asked(t, step) {
			if holds(i) {
				changes = append(changes, i)
			}
			ready = ready && settled(i)
		}
		if len(changes) > 0 || !ready {
			return changes
		}
	}
	for i, id := range t.IntentIds { // another intent changed all of them since, which their undo records
		if id != "" {
			changes = append(changes, i)
		}
	}
	return changes
}

// restoreAgain is the pause before a broken server that was left out is taken back again; it doubles with each try.
const restoreAgain = time.Minute

// RestoreFrom returns from when on a broken target may be taken back to what it had; the zero time means at once.
func RestoreFrom(t *rolloutv1.Target) time.Time {
	if t.NotRestoredAt == nil {
		return time.Time{}
	}
	tried := t.NotRestoredAt.AsTime()
	return tried.Add(max(restoreAgain, tried.Sub(t.Since.AsTime())))
}

// Restored reports whether nothing of a broken target is left to be undone once a change is.
func Restored(t *rolloutv1.Target, change int, holds func(change int) bool) bool {
	for step := StepOf(t.Changes[change]) - 1; step > 0; step-- {
		for i := range asked(t, step) {
			if holds(i) {
				return false
			}
		}
	}
	return true
}

// asked returns the changes of a step that were asked for.
func asked(t *rolloutv1.Target, step uint32) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, id := range t.IntentIds {
			if id != "" && StepOf(t.Changes[i]) == step && !yield(i) {
				return
			}
		}
	}
}
