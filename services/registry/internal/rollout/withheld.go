package rollout

import (
	"slices"

	rollouts "github.com/garrison-fleet/garrison/pkg/noun/rollout"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// A rollout that is paused, halted, aborted or undone begins nothing more: the registry withdraws what it released and
// no server began. A server with nothing else waits for its turn again.

// Repairs reports whether a target brings again what is wanted already. There is nothing to take such a server back to.
func Repairs(t *rolloutv1.Target) bool {
	return slices.ContainsFunc(t.GetChanges(), (*rolloutv1.Change).GetRepair)
}

// Stopped reports whether a rollout in a state must begin nothing.
func Stopped(s rolloutv1.State) bool {
	switch s {
	case rolloutv1.State_STATE_PAUSED, rolloutv1.State_STATE_HALTED, rolloutv1.State_STATE_ABORTED,
		rolloutv1.State_STATE_UNDONE:
		return true
	}
	return false
}

// Releases returns the changes of a target that were asked for and have not ended, by position. Of a broken one they
// may be queued too.
func Releases(t *rolloutv1.Target) (changes []int) {
	for n, id := range t.GetIntentIds() {
		if id != "" && in(t.State, reached, broken) && (n >= len(t.Done) || !t.Done[n]) {
			changes = append(changes, n)
		}
	}
	return changes
}

// withheld returns the state after one change was withdrawn. Once no change of a step is left, the step is due again.
func withheld(r *rolloutv1.Rollout, t *rolloutv1.Target, e Event) rolloutv1.TargetState {
	if t.State != reached || e.Change >= len(t.IntentIds) {
		return t.State
	}
	t.IntentIds[e.Change] = ""
	if halfway(t) {
		return leftOut
	}
	step := StepOf(t.Changes[e.Change])
	for range asked(t, step) {
		return reached // another change of the step goes on, or is withdrawn next
	}
	if step > 1 {
		t.Step = step - 1
		return reached
	}
	t.Step, t.IntentIds, t.UnhealthyBefore = 0, nil, nil
	t.TakenAt, t.SilentSince, t.UnseenSince = nil, nil, nil
	if w := rollouts.Wave(r, t.Wave); w == nil || w.PassedAt != nil {
		return owed
	}
	return pending
}

// halfway reports whether some changes of a step succeeded, the others were withdrawn, and none goes on.
func halfway(t *rolloutv1.Target) bool {
	changed, withdrawn := false, false
	for i, id := range t.IntentIds {
		switch succeeded := i < len(t.Done) && t.Done[i]; {
		case StepOf(t.Changes[i]) != max(t.Step, 1):
		case succeeded:
			changed = true
		case id == "":
			withdrawn = true
		default:
			return false
		}
	}
	return changed && withdrawn
}
