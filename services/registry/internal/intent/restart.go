package intent

import (
	"fmt"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/image"
)

// restarts reports whether an intent starts an agent again and brings nothing.
func restarts(in *intentv1.Intent) bool {
	return in.GetUpgrade().GetAgain() && in.GetUpgrade().GetImage() == nil
}

// changing explains that a restart would bring again what a change is still proving.
func changing(have *instancev1.Instance) *apiv1.Refusal {
	return &apiv1.Refusal{
		Code:    code.ChangeRuns,
		Message: fmt.Sprintf("a change of %s to %s is under way there", have.Agent, have.GetWanted().GetVersion()),
		Try:     "garrison watch " + have.IntentId + ", and then the same again",
	}
}

// restarter returns a function that starts a server's instance again, with the image and the configuration that it has.
func restarter(o *outcome) func(*serverv1.Server, *instancev1.Instance) {
	return func(s *serverv1.Server, have *instancev1.Instance) {
		placed := instance.Placed(have)
		why := o.held(s, have)
		switch {
		case placed == nil:
			why = notPlaced(have)
		case instance.Changing(have):
			why = changing(have)
		case image.Same(have.Wanted, placed):
			why = nil // it brings what is wanted
		}
		if why != nil {
			o.leaveOut(s, have.Agent, have, why)
			return
		}
		o.bring(have, want{
			server: s, agent: have.Agent, image: placed, configuration: have.Configuration, again: true,
		})
	}
}
