package intent

import (
	"fmt"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/instance"
)

// configure merges the agent's metadata anew on every selected server that has it, after
// it changed the instance's own values. The version that is there stays, unless the intent
// says that the wanted one comes with it.
func (o *outcome) configure(q *intentv1.Configure) *apiv1.Refusal {
	agent, refusal := o.agent(q.GetAgent())
	if refusal != nil {
		return refusal
	}
	if refusal := checkOwn(q); refusal != nil {
		return refusal
	}
	merge := o.merger(agent)
	lacks := lacksAgent(agent.Name)
	return o.each(agent.Name, q.GetOn(), func(s *serverv1.Server, have *instancev1.Instance) {
		if have.GetWanted() == nil {
			o.passOver(s, agent.Name, have, lacks) // it lacks the agent, or the agent is leaving
			return
		}
		kept := have.Wanted
		if !q.BringWanted {
			kept = instance.Placed(have)
		}
		if kept == nil {
			o.leaveOut(s, agent.Name, have, notPlaced(have))
			return
		}
		merged, why := merge(s, ownAfter(have, q))
		if why != nil {
			o.leaveOut(s, agent.Name, have, why)
			return
		}
		o.bringOrKeep(have, want{s, agent.Name, kept, merged}, true)
	})
}

func checkOwn(q *intentv1.Configure) *apiv1.Refusal {
	if err := metadata.Check(q.GetSet()); err != nil {
		return fault.RefusalOf(err)
	}
	for _, name := range q.GetUnset() {
		if err := metadata.CheckName(name); err != nil {
			return fault.RefusalOf(err)
		}
		if _, both := q.GetSet()[name]; both {
			return &apiv1.Refusal{Code: metadata.CodeBad, Message: fmt.Sprintf("value %q is to be set and to be taken away", name)}
		}
	}
	return nil
}

// ownAfter gives the instance's own values as the intent wants them.
func ownAfter(have *instancev1.Instance, q *intentv1.Configure) map[string]string {
	own := metadata.Merge(have.GetConfiguration().GetOwn(), q.GetSet())
	for _, name := range q.GetUnset() {
		delete(own, name)
	}
	return own
}

// merger merges the metadata of instances of an agent. Most instances have no values of
// their own, so those of one environment share what was merged: a fleet is large.
func (o *outcome) merger(agent *agentv1.Agent) func(*serverv1.Server, map[string]string) (*instancev1.Configuration, *apiv1.Refusal) {
	application, _ := o.reader.Application(agent.Application)
	shared := map[string]*instancev1.Configuration{} // by environment
	return func(s *serverv1.Server, own map[string]string) (*instancev1.Configuration, *apiv1.Refusal) {
		if c, ok := shared[s.Environment]; ok && len(own) == 0 {
			return c, nil
		}
		environment, _ := o.reader.Environment(s.Environment)
		all := metadata.Merge(application.GetMetadata(), agent.Metadata, environment.GetMetadata(), own)
		if err := metadata.Check(all); err != nil {
			return nil, fault.RefusalOf(err)
		}
		if len(all) == 0 {
			shared[s.Environment] = nil
			return nil, nil
		}
		c := &instancev1.Configuration{Own: own, Metadata: all, Digest: metadata.Digest(all)}
		if len(own) == 0 {
			c.Own = nil
			shared[s.Environment] = c
		}
		return c, nil
	}
}
