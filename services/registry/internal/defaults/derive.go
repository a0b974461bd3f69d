package defaults

import (
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
)

// Derived is what follows from a default for some servers.
type Derived struct {
	Intent  string         // its id; empty when nothing is due
	Drafts  []ledger.Draft // at most one atomic batch
	Changed uint32         // how many servers get the agent
	Waiting []string       // the ids of servers on which it is due and cannot be installed now, or a rollout brings it
	Refused []string       // of those, the ids of servers that no rollout serves
	Held    []string       // of those, the ids of servers that it would reach together with too many others
}

// Batch is how many servers one derived intent changes at most.
const Batch = 500

// Intent and answer must fit in one atomic batch, so that a derived intent is never half in the ledger.
var _ [topology.MaxBatch - Batch - 1]struct{}

// Derive returns the intent that installs a default's agent on those servers, at most Batch of them, where it is due.
// waited is the servers on which a default was due before and could not be installed: what ended that, such as an image
// that came, would bring the agent to all of them at once, so that too many of them wait for a rollout.
func Derive(r Reader, name, agent string, servers []string, waited map[string]bool, at time.Time) Derived {
	e, ok := r.Environment(name)
	d := e.GetDefaults()[agent]
	if !ok || d == nil {
		return Derived{}
	}
	ask := intent.Ask{Actor: d.Actor, Verb: topology.VerbInstall, Intent: asked(e, agent, d), At: at}
	var out Derived
	for _, id := range servers {
		s, ok := r.Server(id)
		if !ok || !isMember(s, name) {
			continue
		}
		switch stateOf(r, s, agent, d) {
		case due:
			ask.Due = append(ask.Due, id)
		case waiting:
			out.Waiting = append(out.Waiting, id)
		}
	}
	if len(ask.Due) == 0 {
		return out
	}
	ask.Due, out.Refused = split(intent.Plan(r, ask))
	ask.Due, out.Held = hold(r, ask, waited)
	out.Refused = append(out.Refused, out.Held...)
	out.Waiting = append(out.Waiting, out.Refused...)
	if len(ask.Due) == 0 {
		return out
	}
	ask.ID = idOf(r, e, agent, d, ask.Due)
	ask.Under = ledger.Guard{
		Subject: ledger.KeySubject(ledger.Environment, name), Sequence: r.Sequence(ledger.Environment, name),
	}
	decision := intent.Decide(r, ask)
	if decision.Refusal != nil || int(decision.Changed) != len(ask.Due) {
		out.Waiting = append(out.Waiting, ask.Due...) // not what was planned, so nothing is done
		return out
	}
	out.Intent, out.Drafts, out.Changed = ask.ID, decision.Drafts, decision.Changed
	return out
}

func isMember(s *serverv1.Server, environment string) bool {
	return s.Life == serverv1.Life_LIFE_ALIVE && s.Environment == environment
}

// split returns the servers that a plan changes, and those that it leaves out.
func split(p intent.Planned) (changed, left []string) {
	p.Targets("", nil, func(t *intentv1.Target) bool {
		if t.Effect == intentv1.Effect_EFFECT_CHANGE {
			changed = append(changed, t.ServerId)
		} else {
			left = append(left, t.ServerId)
		}
		return true
	})
	return changed, left
}

// idOf computes the id of a derived intent from the default and from the state of each of its servers.
func idOf(r Reader, e *environmentv1.Environment, agent string, d *environmentv1.Default, servers []string) string {
	parts := []string{"default", e.Name, agent, strconv.FormatUint(d.Revision, 10)}
	for _, id := range servers {
		s, _ := r.Server(id)
		last := r.Sequence(ledger.Instance, ledger.Key(id, agent))
		parts = append(parts, id, strconv.FormatUint(s.GetEnvironmentJoined(), 10), strconv.FormatUint(last, 10))
	}
	return ident.From(parts...)
}

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
