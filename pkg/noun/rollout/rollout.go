// Package rollout is the life of the noun rollout: a stored plan that reaches servers in waves, stops by itself and can
// be undone. The registry writes the noun.
//
//	next, fit := rollout.Apply(record, fact)
//
// Guarantees:
//
//  1. A rollout runs once every part of its plan is recorded, and the parts come in order.
//  2. A wave begins after the one before it passed, and passes once.
//  3. Nothing begins while a rollout is paused or halted, and nothing happens after its end but that it is undone,
//     again where an undo ended before it was done.
//  4. An approval of the actor who asked for the rollout does not fit where the strategy wants that of another one.
package rollout

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/fsm"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// Life lists which facts can happen in which state, and the state that follows. The last part of a plan lets the
// rollout run; Apply keeps it planned until then.
var Life = fsm.Table[rolloutv1.State, string]{
	rolloutv1.State_STATE_UNSPECIFIED: {"planned": rolloutv1.State_STATE_PLANNED},
	rolloutv1.State_STATE_PLANNED: {
		"planned": rolloutv1.State_STATE_RUNNING, "aborted": rolloutv1.State_STATE_ABORTED,
	},
	rolloutv1.State_STATE_RUNNING: {
		"extended": rolloutv1.State_STATE_RUNNING, "opened": rolloutv1.State_STATE_RUNNING,
		"released": rolloutv1.State_STATE_RUNNING, "primed": rolloutv1.State_STATE_RUNNING,
		"passed": rolloutv1.State_STATE_RUNNING, "silenced": rolloutv1.State_STATE_RUNNING,
		"approved": rolloutv1.State_STATE_RUNNING, "rejected": rolloutv1.State_STATE_HALTED,
		"resumed": rolloutv1.State_STATE_RUNNING, // once it stopped after the wave that it was to stop after
		"paused":  rolloutv1.State_STATE_PAUSED, "halted": rolloutv1.State_STATE_HALTED,
		"succeeded": rolloutv1.State_STATE_SUCCEEDED, "aborted": rolloutv1.State_STATE_ABORTED,
		"undone": rolloutv1.State_STATE_UNDONE,
	},
	rolloutv1.State_STATE_PAUSED: {
		"approved": rolloutv1.State_STATE_PAUSED, "rejected": rolloutv1.State_STATE_HALTED,
		"resumed": rolloutv1.State_STATE_RUNNING, "aborted": rolloutv1.State_STATE_ABORTED,
		"undone": rolloutv1.State_STATE_UNDONE,
	},
	rolloutv1.State_STATE_HALTED: {
		"approved": rolloutv1.State_STATE_HALTED, "resumed": rolloutv1.State_STATE_RUNNING,
		"aborted": rolloutv1.State_STATE_ABORTED, "undone": rolloutv1.State_STATE_UNDONE,
	},
	rolloutv1.State_STATE_SUCCEEDED: {
		"released": rolloutv1.State_STATE_SUCCEEDED, // of servers that are owed
		"extended": rolloutv1.State_STATE_RUNNING,   // by a wave of servers that came later
		"undone":   rolloutv1.State_STATE_UNDONE,
	},
	rolloutv1.State_STATE_ABORTED: {"undone": rolloutv1.State_STATE_UNDONE},
	rolloutv1.State_STATE_UNDONE:  {"undone": rolloutv1.State_STATE_UNDONE}, // once more, by another undo
}

// Apply folds a fact into a rollout's record, which is nil for an unknown one, and returns the record after it. Apply
// may change the record in place. It returns false, and the record unchanged, for a fact that does not fit. The counts
// of the waves are not its matter: they follow from facts about servers and tasks.
func Apply(r *rolloutv1.Rollout, f ledger.Fact) (*rolloutv1.Rollout, bool) {
	next, fit := Life.Next(r.GetState(), f.Name())
	if !fit || !fits(r, f) {
		return r, false
	}
	if b, ok := f.Body.(*rolloutv1.Planned); ok {
		return planned(r, f, b), true
	}
	waited := r.State != rolloutv1.State_STATE_RUNNING
	if r.State != next {
		r.State, r.Since = next, timestamppb.New(f.At)
	}
	if apply(r, f); f.Name() == "resumed" && waited {
		forgive(r)
	}
	return r, true
}

// fits reports whether a fact that the state allows fits the waves.
func fits(r *rolloutv1.Rollout, f ledger.Fact) bool {
	switch b := f.Body.(type) {
	case *rolloutv1.Planned:
		return nextPart(r, b)
	case *rolloutv1.Extended:
		return extends(r, b)
	case *rolloutv1.Opened:
		return closed(r, b.Wave) && (b.Wave == 1 || Wave(r, b.Wave-1).PassedAt != nil)
	case *rolloutv1.Passed:
		return opened(r, b.Wave) && Wave(r, b.Wave).PassedAt == nil
	case *rolloutv1.Released:
		return b.Wave == 0 || opened(r, b.Wave)
	case *rolloutv1.Approved:
		return approvable(r, b.Wave, f.Actor)
	case *rolloutv1.Rejected:
		return closed(r, b.Wave)
	}
	return true
}

// nextPart reports whether a part of a plan is the one that comes next.
func nextPart(r *rolloutv1.Rollout, b *rolloutv1.Planned) bool {
	return b.Part == r.GetParts()+1 && b.Part <= max(b.Parts, 1) && (r == nil || b.Parts == r.OfParts)
}

// approvable reports whether there is such a wave, which has neither begun nor been approved, and an actor may approve
// it.
func approvable(r *rolloutv1.Rollout, wave uint32, actor string) bool {
	return closed(r, wave) && Wave(r, wave).ApprovedBy == "" && MayApprove(r, actor)
}

// MayApprove reports whether an approval of an actor counts: not of the one who asked for the rollout, where the
// strategy wants that of another one.
func MayApprove(r *rolloutv1.Rollout, actor string) bool {
	return !r.GetStrategy().GetApproveByOther() || actor != r.GetActor()
}

// Scheduled reports whether a rollout is to begin at a time, and has not begun: none of its waves opened.
func Scheduled(r *rolloutv1.Rollout) bool {
	if r.GetStartAt() == nil || Ended(r.GetState()) {
		return false
	}
	return len(r.Waves) == 0 || r.Waves[0].OpenedAt == nil
}

// extends reports whether the servers of an extension are in one wave: the last one, or the next one behind it.
func extends(r *rolloutv1.Rollout, b *rolloutv1.Extended) bool {
	last := uint32(len(r.Waves))
	for _, t := range b.Targets {
		if t.Wave != b.Targets[0].Wave || t.Wave == 0 || t.Wave != last && t.Wave != last+1 {
			return false
		}
	}
	behind := len(b.Targets) > 0 && b.Targets[0].Wave > last
	return len(b.Targets) > 0 && (behind || r.State == rolloutv1.State_STATE_RUNNING)
}

// opened reports whether there is such a wave and it began.
func opened(r *rolloutv1.Rollout, wave uint32) bool { return Wave(r, wave).GetOpenedAt() != nil }

// closed reports whether there is such a wave and it has not begun.
func closed(r *rolloutv1.Rollout, wave uint32) bool {
	w := Wave(r, wave)
	return w != nil && w.OpenedAt == nil
}

// Wave returns a wave by its number, which counts from 1, or nil.
func Wave(r *rolloutv1.Rollout, number uint32) *rolloutv1.Wave {
	if number == 0 || int(number) > len(r.GetWaves()) {
		return nil
	}
	return r.Waves[number-1]
}

// Current returns the number of the wave that is open or the next to open; 0 once all have passed.
func Current(r *rolloutv1.Rollout) uint32 {
	for n, w := range r.GetWaves() {
		if w.PassedAt == nil {
			return uint32(n) + 1
		}
	}
	return 0
}

func planned(r *rolloutv1.Rollout, f ledger.Fact, b *rolloutv1.Planned) *rolloutv1.Rollout {
	at := timestamppb.New(f.At)
	if r == nil {
		r = &rolloutv1.Rollout{
			Id: f.Key, Actor: f.Actor, Title: b.Title, Agents: b.Agents, Strategy: b.Strategy, Undoes: b.Undoes,
			State: rolloutv1.State_STATE_PLANNED, PlannedAt: at, Since: at, OfParts: b.Parts,
			Owed: &rolloutv1.Wave{Servers: b.Owed}, Then: b.Then, PlannedSequence: f.Sequence, StartAt: b.StartAt,
		}
		for _, n := range b.Waves {
			r.Waves = append(r.Waves, &rolloutv1.Wave{Servers: n})
		}
	}
	r.LastPartSequence = f.Sequence
	if r.Parts = b.Part; r.Parts >= r.OfParts {
		r.State, r.Since = rolloutv1.State_STATE_RUNNING, at
	}
	return r
}

func apply(r *rolloutv1.Rollout, f ledger.Fact) {
	at := timestamppb.New(f.At)
	switch b := f.Body.(type) {
	case *rolloutv1.Extended:
		if int(b.Targets[0].Wave) > len(r.Waves) {
			r.Waves = append(r.Waves, &rolloutv1.Wave{})
		}
		r.Waves[len(r.Waves)-1].Servers += uint32(len(b.Targets))
	case *rolloutv1.Opened:
		Wave(r, b.Wave).OpenedAt = at
	case *rolloutv1.Passed:
		Wave(r, b.Wave).PassedAt = at
	case *rolloutv1.Approved:
		Wave(r, b.Wave).ApprovedBy = f.Actor
	case *rolloutv1.Halted:
		r.Reason = b.Reason
	case *rolloutv1.Rejected:
		r.Reason, r.SteeredBy, Wave(r, b.Wave).ApprovedBy = b.Reason, f.Actor, ""
	case *rolloutv1.Succeeded:
		if r.FirstSucceededAt == nil {
			r.FirstSucceededAt = at
		}
		if len(b.Then) > 0 {
			r.Then, r.ThenRecorded = b.Then, true // with what it replaced
		}
	case *rolloutv1.Paused:
		r.Reason, r.SteeredBy = said(b.Reason), f.Actor
	case *rolloutv1.Aborted:
		r.Reason, r.SteeredBy = said(b.Reason), f.Actor
	case *rolloutv1.Resumed:
		resume(r, b, f.Actor)
	case *rolloutv1.Undone:
		r.UndoneBy = b.ByRolloutId
	}
}

// resume lets a rollout go on.
func resume(r *rolloutv1.Rollout, b *rolloutv1.Resumed, by string) {
	r.Reason, r.SteeredBy, r.UntilWave = nil, by, b.UntilWave
	if b.Override {
		r.Strategy = proto.CloneOf(r.Strategy) // the fact of the plan keeps its own
		if r.Strategy == nil {
			r.Strategy = &rolloutv1.Strategy{}
		}
		r.Strategy.Override = true
	}
}

// forgive counts anew: what is broken when a rollout that stopped is resumed was seen by who resumed it.
func forgive(r *rolloutv1.Rollout) {
	r.Comparison = nil
	for _, w := range r.Waves {
		w.Forgiven = w.Counts[uint32(rolloutv1.TargetState_TARGET_STATE_BROKEN)]
	}
}

func said(reason string) *apiv1.Refusal {
	if reason == "" {
		return nil
	}
	return &apiv1.Refusal{Message: reason}
}
