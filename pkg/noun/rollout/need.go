package rollout

import (
	"fmt"
	"time"

	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// Need is what a rollout waits for a person to do.
type Need int

// The needs of a rollout.
const (
	NeedsNothing  Need = iota
	NeedsApprove       // the next wave begins only once it is approved
	NeedsResume        // it stopped after the wave that it was to stop after
	NeedsUnpause       // a person paused it
	NeedsDecision      // it halted
)

// NeedAt returns what a rollout waits for a person to do at a time.
func NeedAt(r *rolloutv1.Rollout, at time.Time) Need {
	switch r.GetState() {
	case rolloutv1.State_STATE_PAUSED:
		return NeedsUnpause
	case rolloutv1.State_STATE_HALTED:
		return NeedsDecision
	case rolloutv1.State_STATE_RUNNING:
	default:
		return NeedsNothing
	}
	wave := Current(r)
	if !closed(r, wave) || Scheduled(r) && at.Before(r.StartAt.AsTime()) {
		return NeedsNothing
	}
	switch {
	case r.UntilWave > 0 && wave > r.UntilWave:
		return NeedsResume
	case NeedsApproval(r, wave) && Wave(r, wave).ApprovedBy == "":
		return NeedsApprove
	}
	return NeedsNothing
}

// NeedText returns what a rollout waits for a person to do at a time, in words; "" when it waits for no person.
func NeedText(r *rolloutv1.Rollout, at time.Time) string {
	switch NeedAt(r, at) {
	case NeedsApprove:
		return approval(r, Current(r))
	case NeedsResume:
		return fmt.Sprintf("a person to resume it: it was to stop after wave %d", r.UntilWave)
	case NeedsUnpause:
		return "a person to resume it: it is paused"
	case NeedsDecision:
		if Changed(r) == 0 {
			return "a person to resume or abort it: it halted"
		}
		return "a person to resume, abort or undo it: it halted"
	}
	return ""
}

// Changed returns how many servers have what a rollout brought, or are about to: those that an undo would take back.
// The broken ones go back by themselves.
func Changed(r *rolloutv1.Rollout) uint32 {
	return InState(r, rolloutv1.TargetState_TARGET_STATE_REACHED) +
		InState(r, rolloutv1.TargetState_TARGET_STATE_SUCCEEDED)
}

// InState returns how many servers of a rollout are in a state, with those that were owed from the start.
func InState(r *rolloutv1.Rollout, s rolloutv1.TargetState) uint32 {
	n := r.GetOwed().GetCounts()[uint32(s)]
	for _, w := range r.GetWaves() {
		n += w.GetCounts()[uint32(s)]
	}
	return n
}

// NeedsApproval reports whether a wave begins only after an approval: its strategy says so, or the wave before passed
// and no server of it succeeded.
func NeedsApproval(r *rolloutv1.Rollout, wave uint32) bool {
	return !r.Strategy.GetEmergency() && (asksApproval(r, wave) || untried(r, wave))
}

// asksApproval reports whether the strategy asks for an approval of a wave.
func asksApproval(r *rolloutv1.Rollout, wave uint32) bool {
	if n := int(wave); n <= len(r.Strategy.GetStages()) && r.Strategy.Stages[n-1].Approve {
		return true
	}
	return wave > 1 && (r.Strategy.GetApprove() || r.Strategy.GetApproveByOther())
}

// untried reports whether the wave before passed, and no server of it succeeded.
func untried(r *rolloutv1.Rollout, wave uint32) bool {
	before := Wave(r, wave-1)
	succeeded := before.GetCounts()[uint32(rolloutv1.TargetState_TARGET_STATE_SUCCEEDED)]
	return wave > 1 && before.GetPassedAt() != nil && succeeded == 0
}

// approval returns which approval a wave waits for.
func approval(r *rolloutv1.Rollout, wave uint32) string {
	text := fmt.Sprintf("an approval of wave %d", wave)
	if r.Strategy.GetApproveByOther() {
		text += " by another than " + r.Actor
	}
	if !asksApproval(r, wave) {
		text += ": no server of the wave before succeeded"
	}
	return text
}
