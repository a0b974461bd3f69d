package defaults

import (
	"strconv"
	"time"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
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
