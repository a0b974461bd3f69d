package rollouts

import (
	"fmt"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// Presence returns the hold on presence until every server that stayed silent is recorded as offline; nil without one.
type Presence func() *registryv1.PresenceHeld

// held returns why a rollout waits for presence; "" when it does not. An undo and the emergency lane do not: they may
// be what brings the silent servers back.
func (p Presence) held(r *rolloutv1.Rollout) string {
	if p == nil || r.GetUndoes() != "" || r.GetStrategy().GetEmergency() {
		return ""
	}
	h := p()
	if h == nil {
		return ""
	}
	return fmt.Sprintf("%d %% of the servers, which are silent (%d of %d): presence is held",
		100*h.Silent/max(h.Of, 1), h.Silent, h.Of)
}
