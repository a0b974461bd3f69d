package rollouts

import (
	"testing"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

func TestWhatMayBringSilentServersBackDoesNotWaitForPresence(t *testing.T) {
	held := Presence(func() *registryv1.PresenceHeld { return &registryv1.PresenceHeld{Silent: 6, Of: 10} })
	for name, c := range map[string]struct {
		rollout *rolloutv1.Rollout
		waits   bool
	}{
		"a rollout":         {&rolloutv1.Rollout{}, true},
		"an undo":           {&rolloutv1.Rollout{Undoes: "r"}, false},
		"an emergency lane": {&rolloutv1.Rollout{Strategy: &rolloutv1.Strategy{Emergency: true}}, false},
	} {
		if why := held.held(c.rollout); (why != "") != c.waits {
			t.Errorf("%s waits for %q", name, why)
		}
	}
}
