package defaults

import (
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
)

// Waiting is an agent that is due on a server by a default and cannot be installed there now.
type Waiting struct {
	Agent string
	Why   *apiv1.Refusal
	Since *timestamppb.Timestamp // when the default was set or the server enrolled, whichever was later
}

// Search finds the defaults that wait.
type Search struct {
	Reader
	Only string // the agent; empty means all
	At   time.Time
	// Held returns on how many servers a default is held in all, and on which of some.
	Held func(environment, agent string, servers []string) (all int, some []string)
}

// Waiting returns what is due on some servers of an environment and cannot be installed there now, by the server's id.
// It leaves out what a rollout brings, which the rollout shows, and what is on the server without an instance, which is
// a difference of its own.
func (q Search) Waiting(e *environmentv1.Environment, servers []*serverv1.Server) map[string][]Waiting {
	out := map[string][]Waiting{}
	for _, agent := range Agents(q, e) {
		if q.Only != "" && agent != q.Only {
			continue
		}
		d, dueOn := e.Defaults[agent], map[string]*serverv1.Server{}
		for _, s := range servers {
			if isMember(s, e.Name) && stateOf(q, s, agent, d) == due {
				dueOn[s.Id] = s
			}
		}
		for id, why := range q.reasons(e, agent, dueOn) {
			out[id] = append(out[id], Waiting{Agent: agent, Why: why, Since: sinceWhen(d, dueOn[id])})
		}
	}
	return out
}

// reasons returns why the default of an agent is not installed on servers on which it is due, by their ids.
func (q Search) reasons(
	e *environmentv1.Environment, agent string, dueOn map[string]*serverv1.Server,
) map[string]*apiv1.Refusal {
	if len(dueOn) == 0 {
		return nil
	}
	out, ids := map[string]*apiv1.Refusal{}, make([]string, 0, len(dueOn))
	for id := range dueOn {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	d := e.Defaults[agent]
	plan := intent.Plan(q, intent.Ask{Actor: d.Actor, Intent: asked(e, agent, d), Due: ids, At: q.At})
	all, some := q.Held(e.Name, agent, ids)
	plan.Targets("", nil, func(t *intentv1.Target) bool {
		_, held := slices.BinarySearch(some, t.ServerId)
		switch {
		case t.Effect != intentv1.Effect_EFFECT_CHANGE:
			if t.Reason != nil && t.Reason.Code != code.UnmanagedAgent {
				out[t.ServerId] = t.Reason
			}
		case held:
			out[t.ServerId] = Held(q, e.Name, agent, all)
		}
		return true
	})
	return out
}

func sinceWhen(d *environmentv1.Default, s *serverv1.Server) *timestamppb.Timestamp {
	if s.EnrolledAt.AsTime().After(d.SetAt.AsTime()) {
		return s.EnrolledAt
	}
	return d.SetAt
}
