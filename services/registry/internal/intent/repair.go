package intent

import (
	"github.com/garrison-fleet/garrison/pkg/code"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/drift"
)

// repair brings what is wanted again on every selected server on which something else than a task changed the agent:
// the same version with the same configuration. Others stay as they are.
func repair(o *outcome, q *intentv1.Configure) *apiv1.Refusal {
	if q.BringWanted || q.Replace || q.IfRevision != nil || len(q.Set)+len(q.Unset) > 0 {
		return &apiv1.Refusal{
			Code: code.Malformed, Message: "a repair brings what is wanted already, and changes no value",
		}
	}
	agent, refusal := o.agent(q.GetAgent())
	if refusal != nil {
		return refusal
	}
	lacks := lacksAgent(agent.Name)
	return o.each(agent.Name, q.GetOn(), func(s *serverv1.Server, have *instancev1.Instance) {
		switch {
		case have.GetWanted() == nil:
			o.passOver(s, agent.Name, have, lacks)
		case drift.Drifted(have) == "":
			o.isAlready(s, agent.Name, have, nil)
		default:
			o.bring(have, want{
				server: s, agent: agent.Name, image: have.Wanted, configuration: have.Configuration,
			})
		}
	})
}
