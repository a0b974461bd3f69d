package intent

import (
	"fmt"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// configure changes the instance's own values on every selected server that has the agent, and
// merges the metadata again. The placed version stays, unless the intent also brings the wanted one.
func configure(o *outcome, q *intentv1.Configure) *apiv1.Refusal {
	if q.GetRepair() {
		return repair(o, q)
	}
	agent, refusal := o.agent(q.GetAgent())
	if refusal != nil {
		return refusal
	}
	own := changeOfOwn(q)
	if err := own.Check(); err != nil {
		return fault.RefusalOf(err)
	}
	merge := merger(o, agent)
	lacks := lacksAgent(agent.Name)
	return o.each(agent.Name, q.GetOn(), func(s *serverv1.Server, have *instancev1.Instance) {
		if have.GetWanted() == nil {
			o.passOver(s, agent.Name, have, lacks) // the server lacks the agent, or the agent is being removed
			return
		}
		kept := instance.Placed(have)
		if q.BringWanted || kept == nil && !instance.WantedFailed(have) { // what never ran may lack only a value
			kept = have.Wanted
		}
		if kept == nil {
			o.leaveOut(s, agent.Name, have, notPlaced(have))
			return
		}
		before := have.GetConfiguration().GetOwn()
		merged, why := merge(s, own.Apply(before))
		if err := metadata.CheckKeptSecret(before, q.GetSet()); err != nil {
			why = fault.RefusalOf(err)
		}
		if changed := revisionOf(have, q); changed != nil {
			why = changed
		}
		if why == nil {
			why = o.held(s, have)
		}
		if why != nil {
			o.leaveOut(s, agent.Name, have, why)
			return
		}
		next := want{server: s, agent: agent.Name, image: kept, configuration: merged}
		bringOrKeep(o, have, next, true)
	})
}

// changeOfOwn returns what an intent does to an instance's own values.
func changeOfOwn(q *intentv1.Configure) metadata.Change {
	return metadata.Change{Set: q.GetSet(), Unset: q.GetUnset(), Replace: q.GetReplace()}
}

// revisionOf refuses an intent that is based on another revision of the instance's own values.
func revisionOf(have *instancev1.Instance, q *intentv1.Configure) *apiv1.Refusal {
	last := have.GetOwnChange()
	if q.IfRevision == nil || q.GetIfRevision() == last.GetRevision() {
		return nil
	}
	who := "they were never set"
	if last != nil {
		who = fmt.Sprintf("%s changed them at %s", last.ChangedBy, last.ChangedAt.AsTime().UTC().Format(time.RFC3339))
	}
	return &apiv1.Refusal{
		Code: code.RevisionChanged,
		Message: fmt.Sprintf("the own values of %s have revision %d, not %d: %s", have.Agent, last.GetRevision(),
			q.GetIfRevision(), who),
		Try: "garrison instance show SERVER " + have.Agent,
	}
}
