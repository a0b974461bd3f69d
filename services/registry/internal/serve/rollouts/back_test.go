package rollouts

import (
	"strings"
	"testing"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/recordstest"
)

// A server that was taken back was shown as broken like one that is still ill.
func TestARolloutThatHaltedNamesItsBrokenServersThatAreBackApart(t *testing.T) {
	t.Parallel()
	f := running(t, 2, "web")
	id := f.start(up(hurried()))
	f.until("its broken servers are back", everywhere, func() bool {
		return f.rollout(id).GetState() == rolloutv1.State_STATE_HALTED && f.View.CountUnrestored(id) == 0
	})
	f.Work(nil)
	f.damage(f.servers[0])
	resp := recordstest.Call(f.World, f.api.get, &registryv1.GetRolloutRequest{RolloutId: id})
	back := map[bool]string{}
	for _, r := range resp.Reasons {
		back[r.Back] += strings.Join(r.ServerNames, " ")
	}
	ill, _ := f.View.Server(f.servers[0])
	well, _ := f.View.Server(f.servers[1])
	if back[false] != ill.Name || back[true] != well.Name {
		t.Errorf("back are %q, and not %q; want %s, and %s", back[true], back[false], well.Name, ill.Name)
	}
}
