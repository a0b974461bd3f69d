package intent

import (
	"fmt"
	"slices"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// reinstall unwants every instance of a server and marks the server, in one step. Asked again meanwhile it requests
// the removals that failed again, and nothing else.
func reinstall(o *outcome, q *intentv1.Reinstall) *apiv1.Refusal {
	if q.GetServer() == "" {
		return &apiv1.Refusal{
			Code: code.EmptySelector, Message: "no server is named", Try: "garrison server reinstall SERVER",
		}
	}
	s, refusal := selector.Find(o.reader, q.Server)
	switch {
	case refusal != nil:
		return refusal
	case s.Life != serverv1.Life_LIFE_ALIVE:
		return selector.NotAlive(s)
	}
	if paused := o.onHold(s, ""); paused != nil { // holds of single agents let it pass
		return paused
	}
	if s.Reinstall != nil {
		retryRemovals(o, s)
		return nil
	}
	instances := slices.Collect(o.reader.InstancesOf(s.Id))
	if len(instances) >= largest {
		return tooManyInstances(s, len(instances))
	}
	ofServer(o, s, change)
	o.change(ledger.Server, s.Id, &serverv1.Reinstalling{IntentId: o.ask.ID}, 0)
	unwantAll(o, instances)
	return nil
}

// unwantAll requests the removal of instances, except where it is under way.
func unwantAll(o *outcome, instances []*instancev1.Instance) {
	for _, i := range instances {
		if i.Wanted != nil || i.State == instancev1.State_STATE_FAILED {
			o.unwant(i)
		}
	}
}

func tooManyInstances(s *serverv1.Server, n int) *apiv1.Refusal {
	return &apiv1.Refusal{
		Code:    code.TooMany,
		Message: fmt.Sprintf("server %q has %d instances, too many to end in one batch", s.Name, n),
	}
}

// beingReinstalled explains why no agent comes to a server.
func beingReinstalled(s *serverv1.Server) *apiv1.Refusal {
	return &apiv1.Refusal{
		Code: code.ServerReinstalling, Message: fmt.Sprintf("server %q is being reinstalled", s.Name),
		Try: "garrison explain " + s.Name,
	}
}
