package intent

import (
	"fmt"

	"github.com/garrison-fleet/garrison/pkg/code"
	rollouts "github.com/garrison-fleet/garrison/pkg/noun/rollout"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// needsWayBack returns why the versions that a server keeps for a way back must stay, or nil: a rollout that has not
// ended may have to take it back, or an operator does not want it changed.
func (o *outcome) needsWayBack(s *serverv1.Server) *apiv1.Refusal {
	for _, id := range o.reader.RolloutsOn(s.Id) {
		if r, _ := o.reader.Rollout(id); r != nil && !rollouts.Ended(r.State) {
			return &apiv1.Refusal{
				Code: code.RolloutOverlaps, Try: "garrison rollout show " + id + ", and again when it has ended",
				Message: fmt.Sprintf("rollout %s (%s) has not ended, and may take the server back", id, r.Title),
			}
		}
	}
	for i := range o.reader.InstancesOf(s.Id) {
		if why := o.onHold(s, i.Agent); why != nil {
			return why
		}
	}
	return o.closed(s)
}
