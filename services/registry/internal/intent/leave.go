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
	targets, refusal := selector.Resolve(o.reader, q.GetOn())
	if refusal != nil {
		return refusal
	}
	for _, s := range targets {
		have, ok := o.reader.Instance(s.Id, agent.Name)
		switch {
		case !ok:
			o.passed++
		case have.Wanted == nil && o.mine(have):
			o.changed = append(o.changed, s.Id)
		case have.Wanted == nil && have.State != instancev1.State_STATE_FAILED:
			o.already++
		default: // wanted, or its removal failed and is to be tried again
			o.unwant(have)
			o.changed = append(o.changed, s.Id)
		}
	}
	if int(o.passed) == len(targets) {
		return noInstances(agent.Name, len(targets), "garrison instance list --agent "+agent.Name)
	}
	return nil
}

// refresh changes nothing here: the dispatcher opens a task for each server that the
// answer names. An answer names so many only, so more are refused.
func (o *outcome) refresh(q *intentv1.Refresh) *apiv1.Refusal {
	targets, refusal := selector.Resolve(o.reader, q.GetOn())
	if refusal != nil {
		return refusal
	}
	if len(targets) > namedServers {
		return &apiv1.Refusal{
			Code:    "TOO_MANY_SERVERS",
			Message: fmt.Sprintf("%d servers are selected; one refresh is for %d at most", len(targets), namedServers),
			Try:     "a narrower selector",
		}
	}
	for _, s := range targets {
		o.changed = append(o.changed, s.Id)
	}
	return nil
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
		o.already++
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
	o.changed = append(o.changed, s.Id)
	if q.Lost {
		o.lose(s, instances)
		return nil
	}
	o.die(s, instances)
	return nil
}

// largest bounds the instances of one server: their end, the server's and the intent's answer are one atomic unit.
const largest = 990

func (o *outcome) die(s *serverv1.Server, instances []*instancev1.Instance) {
	o.change(ledger.Server, s.Id, &serverv1.Dying{IntentId: o.ask.ID}, 0)
	for _, i := range instances {
		if i.Wanted != nil || i.State == instancev1.State_STATE_FAILED {
			o.unwant(i)
		}
	}
	if len(instances) == 0 {
		// The fact before it carries the key's guard, and both are recorded or none.
		o.changes = append(o.changes, ledger.Free(o.fact(ledger.Server, s.Id, &serverv1.Dead{IntentId: o.ask.ID}, 0)))
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
		o.already++
		return
	}
	o.changed = append(o.changed, s.Id)
}

func (o *outcome) lose(s *serverv1.Server, instances []*instancev1.Instance) {
	for _, i := range instances {
		gone := &instancev1.Gone{InstanceId: i.Id, IntentId: o.ask.ID, Lost: true}
		o.change(ledger.Instance, ledger.Key(i.ServerId, i.Agent), gone, i.Generation)
	}
	o.change(ledger.Server, s.Id, &serverv1.Dead{IntentId: o.ask.ID, Lost: true}, 0)
}
