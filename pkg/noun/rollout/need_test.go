package rollout_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/noun/rollout"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

func TestARolloutNamesWhatItWaitsForAPersonToDo(t *testing.T) {
	at := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	passed := func(succeeded uint32) *rolloutv1.Wave {
		return &rolloutv1.Wave{
			OpenedAt: timestamppb.New(at), PassedAt: timestamppb.New(at),
			Counts: map[uint32]uint32{uint32(rolloutv1.TargetState_TARGET_STATE_SUCCEEDED): succeeded},
		}
	}
	running := func(waves ...*rolloutv1.Wave) *rolloutv1.Rollout {
		return &rolloutv1.Rollout{State: rolloutv1.State_STATE_RUNNING, Waves: waves, Actor: "ann"}
	}
	with := func(r *rolloutv1.Rollout, change func(*rolloutv1.Rollout)) *rolloutv1.Rollout {
		change(r)
		return r
	}
	asks := func(r *rolloutv1.Rollout) { r.Strategy = &rolloutv1.Strategy{ApproveByOther: true} }
	next, open := &rolloutv1.Wave{}, &rolloutv1.Wave{OpenedAt: timestamppb.New(at)}
	for name, c := range map[string]struct {
		r    *rolloutv1.Rollout
		want string
	}{
		"one that goes on":     {running(passed(1), next), ""},
		"one whose wave began": {with(running(passed(1), open), asks), ""},
		"one that asks for approvals": {
			with(running(passed(1), next), asks), "an approval of wave 2 by another than ann",
		},
		"one whose wave is approved": {
			with(running(passed(1), &rolloutv1.Wave{ApprovedBy: "bob"}), asks), "",
		},
		"one whose first wave changed no server": {
			running(passed(0), next), "an approval of wave 2: no server of the wave before succeeded",
		},
		"one that was stepped": {
			with(running(passed(1), next), func(r *rolloutv1.Rollout) { r.UntilWave = 1 }),
			"a person to resume it: it was to stop after wave 1",
		},
		"one that begins later": {
			with(running(next), func(r *rolloutv1.Rollout) {
				r.StartAt = timestamppb.New(at.Add(time.Hour))
				r.Strategy = &rolloutv1.Strategy{Stages: []*rolloutv1.Stage{{Approve: true}}}
			}), "",
		},
		"one that is paused": {
			&rolloutv1.Rollout{State: rolloutv1.State_STATE_PAUSED}, "a person to resume it: it is paused",
		},
		"one that halted": {
			&rolloutv1.Rollout{State: rolloutv1.State_STATE_HALTED, Waves: []*rolloutv1.Wave{passed(1)}},
			"a person to resume, abort or undo it: it halted",
		},
		"one that halted before a server kept what it brought": {
			&rolloutv1.Rollout{State: rolloutv1.State_STATE_HALTED, Waves: []*rolloutv1.Wave{passed(0)}},
			"a person to resume or abort it: it halted",
		},
		"one that ended": {&rolloutv1.Rollout{State: rolloutv1.State_STATE_SUCCEEDED}, ""},
	} {
		if have := rollout.NeedText(c.r, at); have != c.want {
			t.Errorf("%s waits for %q, want %q", name, have, c.want)
		}
	}
}
