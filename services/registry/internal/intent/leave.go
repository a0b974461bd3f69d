package intent

import (
	"fmt"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// remove unwants the agent on every selected server that has it.
func remove(o *outcome, q *intentv1.Remove) *apiv1.Refusal {
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
		default: // wanted, or its removal failed and is tried again
			o.takeOff(s, have)
		}
	})
}

// refresh changes no instance: the dispatcher opens a task for each server that the answer names. An
// answer names a limited number of servers, so a larger refresh is refused.
func refresh(o *outcome, q *intentv1.Refresh) *apiv1.Refusal {
	if refusal := checkScan(q.GetScan()); refusal != nil {
		return refusal
	}
	if q.GetPurgeKept() && q.GetScan() != nil {
		return &apiv1.Refusal{Code: code.Malformed, Message: "a scan deletes nothing: purge_kept is for a refresh"}
	}
	if q.GetAhead() != nil && o.ask.Intent.GetSource().GetRolloutId() == "" {
		return &apiv1.Refusal{Code: code.Malformed, Message: "only a rollout asks servers to fetch ahead"}
	}
	refusal := o.each("", q.GetOn(), func(s *serverv1.Server, _ *instancev1.Instance) {
		if why := o.needsWayBack(s); q.GetPurgeKept() && why != nil {
			o.leaveOut(s, "", nil, why)
			return
		}
		ofServer(o, s, change)
	})
	if n := o.changed(); refusal == nil && n > namedRefreshed {
		return &apiv1.Refusal{
			Code:    code.TooMany,
			Message: fmt.Sprintf("%d servers are selected; one refresh is for %d at most", n, namedRefreshed),
			Try:     "a part after the other, such as --on env=NAME or --on LABEL=VALUE",
		}
	}
	return refusal
}

// maxDetectors is how many detectors one scan names.
const maxDetectors = 16

// checkScan refuses names that no detector can have. Which ones a server has is known there alone.
func checkScan(q *serverv1.Scan) *apiv1.Refusal {
	if n := len(q.GetDetectors()); n > maxDetectors {
		return &apiv1.Refusal{
			Code: code.UnknownDetector, Message: fmt.Sprintf("%d detectors; %d are the most", n, maxDetectors),
		}
	}
	for _, name := range q.GetDetectors() {
		if err := ident.CheckName("detector", name); err != nil {
			return &apiv1.Refusal{Code: code.UnknownDetector, Message: err.Error()}
		}
	}
	return nil
}

// ofServer adds a target that is the server itself.
func ofServer(o *outcome, s *serverv1.Server, effect intentv1.Effect) {
	move := intentv1.Move_MOVE_REFRESH
	switch {
	case o.ask.Intent.GetReinstall() != nil:
		move = intentv1.Move_MOVE_REINSTALL
	case o.ask.Intent.GetDecommission() != nil:
		move = intentv1.Move_MOVE_DECOMMISSION
	}
	o.add(target{server: s, effect: effect, move: move})
}

// largest bounds the instances of one server: their end, the server's and the intent's answer are one atomic batch.
const largest = 990

// die requests the removal of every agent. Package duty records the end, at once for a server
// without agents.
func die(o *outcome, s *serverv1.Server, instances []*instancev1.Instance) {
	o.change(ledger.Server, s.Id, &serverv1.Dying{IntentId: o.ask.ID}, 0)
	unwantAll(o, instances)
}

// retryRemovals requests the failed removals on a server again that is dying or being reinstalled: it accepts no
// other change, and without them that would never end.
func retryRemovals(o *outcome, s *serverv1.Server) {
	before := len(o.changes)
	for i := range o.reader.InstancesOf(s.Id) {
		if i.Wanted == nil && i.State == instancev1.State_STATE_FAILED {
			o.unwant(i)
		}
	}
	if len(o.changes) == before {
		ofServer(o, s, already)
		return
	}
	ofServer(o, s, change)
}

// lose ends a server and its instances at once. By force its credentials are void with the same fact.
func lose(o *outcome, s *serverv1.Server, instances []*instancev1.Instance, force bool) {
	for _, i := range instances {
		loseInstance(o, i)
	}
	o.change(ledger.Server, s.Id, &serverv1.Dead{IntentId: o.ask.ID, Lost: true, Forced: force}, 0)
}

func loseInstance(o *outcome, i *instancev1.Instance) {
	gone := &instancev1.Gone{InstanceId: i.Id, IntentId: o.ask.ID, Lost: true}
	o.change(ledger.Instance, ledger.Key(i.ServerId, i.Agent), gone, i.Generation)
}
