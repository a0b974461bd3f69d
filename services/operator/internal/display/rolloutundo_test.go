package display

import (
	"testing"

	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

func TestARolloutSaysHowFarTheOneCameThatUndoesIt(t *testing.T) {
	r := &rolloutv1.Rollout{Id: "r", UndoneBy: "u"}
	for state, want := range map[rolloutv1.State]string{
		0: "u", rolloutv1.State_STATE_SUCCEEDED: "u", rolloutv1.State_STATE_RUNNING: "u, which is running",
		rolloutv1.State_STATE_UNDONE: "u, which was undone",
		rolloutv1.State_STATE_ABORTED: "u, which was aborted; to take back what is left: " +
			"garrison rollout undo r",
	} {
		if have := undoneBy(r, &rolloutv1.Rollout{State: state}); have != want {
			t.Errorf("%s: %q, want %q", state, have, want)
		}
	}
}
