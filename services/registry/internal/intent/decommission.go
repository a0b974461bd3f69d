package intent

import (
	"fmt"
	"slices"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// decommission ends a server, or each that a selector matches: after its agents are removed, or at once when the
// machine is lost.
func decommission(o *outcome, q *intentv1.Decommission) *apiv1.Refusal {
	switch {
	case q.Force && !q.Lost:
		return &apiv1.Refusal{
			Code: code.Malformed, Message: "a server is given up by force only as lost",
			Try: "garrison server decommission SERVER --lost --force",
		}
	case q.GetServer() != "" && q.On != nil:
		return &apiv1.Refusal{Code: code.Malformed, Message: "a server and a selector; want one of them"}
	case q.On != nil:
		return decommissionAll(o, q)
	case q.GetServer() == "":
		return &apiv1.Refusal{
			Code:    code.EmptySelector,
			Message: "no server is named",
			Try:     "garrison server decommission SERVER",
		}
	}
	s, refusal := selector.Find(o.reader, q.Server)
	if refusal != nil {
		return refusal
	}
	return end(o, s, q)
}

// decommissionAll ends the servers that a selector matches. One on which that is impossible is left out.
func decommissionAll(o *outcome, q *intentv1.Decommission) *apiv1.Refusal {
	if o.ask.Again {
		finish(o, q)
	}
	found, refusal := selector.Resolve(o.reader, q.On)
	if refusal != nil && !o.resumed {
		return refusal
	}
	all := found.Servers
	for _, left := range found.Left {
		all = append(all, left.Server)
	}
	for _, s := range all {
		if o.resumed && s.IntentId == o.ask.ID {
			continue // finish added it
		}
		if why := end(o, s, q); why != nil {
			o.leaveOut(s, "", nil, why)
		}
	}
	return nil
}

// finish requests what an earlier attempt did not: the facts of a large intent are recorded in parts, so that the end
// of a server may be in the ledger without that of its instances.
func finish(o *outcome, q *intentv1.Decommission) {
	for s := range o.reader.ServersWhere("", nil) {
		if o.ask.ID == "" || s.IntentId != o.ask.ID || server.StateOf(s.Life) == server.Alive {
			continue
		}
		o.resumed = true
		ofServer(o, s, change)
		for i := range o.reader.InstancesOf(s.Id) {
			switch {
			case q.Lost:
				loseInstance(o, i)
			case i.Wanted != nil:
				o.unwant(i)
			}
		}
	}
}

// end ends one server.
func end(o *outcome, s *serverv1.Server, q *intentv1.Decommission) (refusal *apiv1.Refusal) {
	switch {
	case s.Life == serverv1.Life_LIFE_INVITED:
		refusal = selector.NotAlive(s)
		refusal.Try = "garrison server forget " + s.Id
		return refusal
	case s.Life == serverv1.Life_LIFE_DEAD:
		ofServer(o, s, already)
		return nil
	case s.Life == serverv1.Life_LIFE_DYING && !q.Lost:
		retryRemovals(o, s)
		return nil
	case q.Lost && !q.Force && s.Presence == serverv1.Presence_PRESENCE_ONLINE && !server.ShutOut(s):
		return &apiv1.Refusal{
			Code: code.ServerOnline, Message: fmt.Sprintf("server %q (%s) is online, so it is not lost", s.Name, s.Id),
			Try: fmt.Sprintf("garrison server decommission %s; to give it up although it beats, which voids its "+
				"credentials: garrison server decommission %s --lost --force", s.Name, s.Name),
		}
	}
	instances := slices.Collect(o.reader.InstancesOf(s.Id))
	if len(instances) >= largest {
		return tooManyInstances(s, len(instances))
	}
	ofServer(o, s, change)
	if q.Lost {
		lose(o, s, instances, q.Force)
		return nil
	}
	die(o, s, instances)
	return nil
}
