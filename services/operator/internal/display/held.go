package display

import (
	"fmt"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// PresenceHeld says why the registry calls no server offline, and until when.
func PresenceHeld(v output.View, h *registryv1.PresenceHeld) string {
	return fmt.Sprintf("the registry hears no beats from %d %% of the servers (%d of %d), since %s ago: presence is "+
		"held, and they are offline %s; look at the bus first: garrison bus status",
		100*h.GetSilent()/max(h.GetOf(), 1), h.GetSilent(), h.GetOf(), output.Age(v, h.GetSince()),
		output.Until(v, h.GetUntil()))
}
