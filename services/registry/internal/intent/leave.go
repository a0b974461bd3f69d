package intent

import (
	"fmt"
	"slices"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// remove unwants the agent on every selected server that has it.
func (o *outcome) remove(q *intentv1.Remove) *apiv1.Refusal {
	agent, refusal := o.agent(q.GetAgent())
	if refusal != nil {
		return refusal
	}
	lacks := lacksAgent(agent.Name)
	lacks.Try = "garrison instance list --agent " + agent.Name
	return o.each(agent.Name, q.GetOn(), func(s *serverv1.Server, have *instancev1.Instance) {
		switch {
		case have == nil:
			o.passOver(s, agent.Name, nil, lacks)
		case have.Wanted == nil && have.State != instancev1.State_STATE_FAILED:
			o.isAlready(s, agent.Name, have, nil)
		default: // wanted, or its removal failed and is to be tried again
			o.takeAway(s, have)
		}
	})
}

// refresh changes nothing here: the dispatcher opens a task for each server that the
// answer names. An answer names so many only, so more are refused.
func (o *outcome) refresh(q *intentv1.Refresh) *apiv1.Refusal {
	refusal := o.each("", q.GetOn(), func(s *serverv1.Server, _ *instancev1.Instance) { o.ofServer(s, change) })
	if n := o.changed(); refusal == nil && n > namedRefreshed {
		return &apiv1.Refusal{
			Code:    "TOO_MANY_SERVERS",
			Message: fmt.Sprintf("%d servers are selected; one refresh is for %d at most", n, namedRefreshed),
			Try:     "a narrower selector",
		}
	}
	return refusal
}

// ofServer notes what becomes of a server itself.
func (o *outcome) ofServer(s *serverv1.Server, effect intentv1.Effect) {
	o.add(target{server: s, effect: effect, move: intentv1.Move_MOVE_SERVER})
}

// decommission takes a server away: with its agents, or, when it is lost, at once.
func (o *outcome) decommission(q *intentv1.Decommission) *apiv1.Refusal {
	if q.GetServer() == "" {
		return &apiv1.Refusal{Code: "EMPTY_SELECTOR", Message: "no server is named", Try: "garrison server decommission SERVER"}
	}
	s, refusal := selector.Find(o.reader, q.Server)
	if refusal != nil {
		return refusal
	}
	switch {
	case s.Life == serverv1.Life_LIFE_INVITED:
		refusal = selector.NotAlive(s)
		refusal.Try = "garrison server forget " + s.Id
		return refusal
	case s.Life == serverv1.Life_LIFE_DEAD:
		o.ofServer(s, already)
		return nil
	case s.Life == serverv1.Life_LIFE_DYING && !q.Lost:
		o.dieOn(s)
		return nil
	case q.Lost && s.Presence == serverv1.Presence_PRESENCE_ONLINE:
		return &apiv1.Refusal{
			Code: "SERVER_ONLINE", Message: fmt.Sprintf("server %q (%s) is online, so it is not lost", s.Name, s.Id),
			Try: "garrison server decommission " + s.Id,
		}
	}
	instances := slices.Collect(o.reader.InstancesOf(s.Id))
	if len(instances) >= largest {
		return &apiv1.Refusal{Code: "TOO_MANY_INSTANCES", Message: fmt.Sprintf("server %q has %d instances, too many to end in one step", s.Name, len(instances))}
	}
	o.ofServer(s, change)
	if q.Lost {
		o.lose(s, instances)
		return nil
	}
	o.die(s, instances)
	return nil
}

// largest bounds the instances of one server: their end, the server's and the intent's answer are one atomic unit.
const largest = 990

// die asks for the removal of every agent; package duty records the end, at once when there is none.
func (o *outcome) die(s *serverv1.Server, instances []*instancev1.Instance) {
	o.change(ledger.Server, s.Id, &serverv1.Dying{IntentId: o.ask.ID}, 0)
	for _, i := range instances {
		if i.Wanted != nil || i.State == instancev1.State_STATE_FAILED {
			o.unwant(i)
		}
	}
}

// dieOn asks once more for the removals that failed on a server that is dying: nothing
// else can be asked of it, and without them it would never be dead.
func (o *outcome) dieOn(s *serverv1.Server) {
	for i := range o.reader.InstancesOf(s.Id) {
		if i.Wanted == nil && i.State == instancev1.State_STATE_FAILED {
			o.unwant(i)
		}
	}
	if len(o.changes) == 0 {
		o.ofServer(s, already)
		return
	}
	o.ofServer(s, change)
}

func (o *outcome) lose(s *serverv1.Server, instances []*instancev1.Instance) {
	for _, i := range instances {
		gone := &instancev1.Gone{InstanceId: i.Id, IntentId: o.ask.ID, Lost: true}
		o.change(ledger.Instance, ledger.Key(i.ServerId, i.Agent), gone, i.Generation)
	}
	o.change(ledger.Server, s.Id, &serverv1.Dead{IntentId: o.ask.ID, Lost: true}, 0)
}
