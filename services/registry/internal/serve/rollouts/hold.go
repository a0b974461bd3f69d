package rollouts

import (
	"fmt"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// Presence returns the hold on presence until every server that stayed silent is recorded as offline; nil without one.
type Presence func() *registryv1.PresenceHeld

// held returns why rollouts wait for presence; "" when they do not.
func (p Presence) held() string {
	if p == nil {
		return ""
	}
	h := p()
	if h == nil {
		return ""
	}
	return fmt.Sprintf("%d %% of the servers, which are silent (%d of %d): presence is held",
		100*h.Silent/max(h.Of, 1), h.Silent, h.Of)
}
