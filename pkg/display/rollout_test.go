package display

import (
	"testing"

	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

func TestARolloutThatSucceededSaysHowManyItLeftOut(t *testing.T) {
	counts := map[uint32]uint32{
		uint32(rolloutv1.TargetState_TARGET_STATE_SUCCEEDED): 1, uint32(rolloutv1.TargetState_TARGET_STATE_LEFT_OUT): 2,
	}
	waves := []*rolloutv1.Wave{{Servers: 3, Counts: counts}}
	r := &rolloutv1.Rollout{State: rolloutv1.State_STATE_SUCCEEDED, Waves: waves}
	if have := RolloutState(r); have != "succeeded with 2 left out" {
		t.Errorf("it is %q", have)
	}
	if have := undoneBy(&rolloutv1.Rollout{UndoneBy: "u"}, r); have != "u, which succeeded with 2 left out" {
		t.Errorf("another one is undone by %q", have)
	}
	r.State = rolloutv1.State_STATE_RUNNING
	if have := RolloutState(r); have != "running" {
		t.Errorf("before its end it is %q", have)
	}
}

func TestARolloutSaysHowFarTheOneCameThatUndoesIt(t *testing.T) {
	r := &rolloutv1.Rollout{Id: "r", UndoneBy: "u"}
	for state, want := range map[rolloutv1.State]string{
		0: "u", rolloutv1.State_STATE_SUCCEEDED: "u", rolloutv1.State_STATE_RUNNING: "u, which is running",
		rolloutv1.State_STATE_UNDONE: "u, which was undone",
		rolloutv1.State_STATE_ABORTED: "u, which was aborted; to take back what is left: " +
			"garrison undo r",
	} {
		if have := undoneBy(r, &rolloutv1.Rollout{State: state}); have != want {
			t.Errorf("%s: %q, want %q", state, have, want)
		}
	}
}
