// Package defaults decides which agents the servers of an environment lack and get. It is pure: it reads the view and
// returns intents, plans and counts.
//
// Guarantees:
//
//  1. A default installs an agent where it is missing. An instance that exists, at whatever image and by whatever
//     intent, stays as it is; so does an agent that no instance explains.
//  2. A default is due on a server that joined the environment after the default was first set, or that was in it when
//     the default was set for all. It is not due where the agent was removed since: that removal stands until the
//     default is set for all again or the server joins again.
//  3. Derive returns one intent for many servers, under an id that is computed from the default and from the state of
//     each server, and guarded by the environment and each instance: of two replicas that derive the same, one wins.
//     A derived intent is never refused, because it names only servers that it changes.
//  4. A default waits for a rollout that brings its agent to a server, until the rollout served it, or was aborted or
//     undone.
//  5. PlanSet and PlanMove decide as Derive will once the change is recorded, and draft nothing.
package defaults

import (
	"fmt"
	"maps"
	"slices"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/environment"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
)

const (
	present = registryv1.DefaultState_DEFAULT_STATE_PRESENT
	due     = registryv1.DefaultState_DEFAULT_STATE_DUE
	waiting = registryv1.DefaultState_DEFAULT_STATE_WAITING
	removed = registryv1.DefaultState_DEFAULT_STATE_REMOVED
	beyond  = registryv1.DefaultState_DEFAULT_STATE_BEYOND
)

// Reader is the view that a decision reads.
type Reader interface {
	intent.Reader
	Rollout(id string) (*rolloutv1.Rollout, bool)
	Target(rollout, server string) (*rolloutv1.Target, bool)
	RolloutsOn(server string) []string
}

// stateOf returns what became of a default on a living server of its environment. It does not choose an image, so due
// stands also for what waits, but for what a rollout brings.
func stateOf(r Reader, s *serverv1.Server, agent string, d *environmentv1.Default) registryv1.DefaultState {
	if _, ok := r.Instance(s.Id, agent); ok {
		return present
	}
	since, applies := environment.AppliesSince(d, s)
	switch {
	case !applies:
		return beyond
	case r.Sequence(ledger.Instance, ledger.Key(s.Id, agent)) > since:
		return removed // the end of an instance is the last fact on its key
	case onItsWay(r, s.Id, agent):
		return waiting
	}
	return due
}

// onItsWay reports whether a rollout brings the agent to a server that it has not served: the default waits for the
// rollout, whose waves and gates would be worth nothing otherwise.
func onItsWay(r Reader, server, agent string) bool {
	for _, id := range r.RolloutsOn(server) {
		t, _ := r.Target(id, server)
		brings := slices.ContainsFunc(t.GetChanges(), func(c *rolloutv1.Change) bool {
			return c.Agent == agent && c.To != nil
		})
		if !brings {
			continue
		}
		switch ro, _ := r.Rollout(id); ro.GetState() {
		case rolloutv1.State_STATE_ABORTED, rolloutv1.State_STATE_UNDONE:
			continue
		}
		switch t.State {
		case rolloutv1.TargetState_TARGET_STATE_PENDING, rolloutv1.TargetState_TARGET_STATE_REACHED,
			rolloutv1.TargetState_TARGET_STATE_OWED:
			return true
		}
	}
	return false
}

// Agents returns the agents of an environment's defaults, each after those that it depends on.
func Agents(r Reader, e *environmentv1.Environment) []string {
	names := make([]string, 0, len(e.GetDefaults()))
	for name := range e.GetDefaults() {
		names = append(names, name)
	}
	slices.Sort(names)
	var out []string
	seen := map[string]bool{}
	var visit func(string)
	visit = func(name string) {
		if seen[name] {
			return
		}
		seen[name] = true
		a, _ := r.Agent(name)
		for _, d := range a.GetDependencies() {
			visit(d)
		}
		if _, ok := e.Defaults[name]; ok {
			out = append(out, name)
		}
	}
	for _, name := range names {
		visit(name)
	}
	return out
}

// asked returns the intent that follows from a default.
func asked(e *environmentv1.Environment, agent string, d *environmentv1.Default) *intentv1.Intent {
	return &intentv1.Intent{
		Source: &intentv1.Source{Environment: e.Name, Revision: d.Revision},
		Ask: &intentv1.Intent_Install{Install: &intentv1.Install{
			Agent: agent, Image: d.Image, On: &intentv1.Selector{Environment: e.Name},
		}},
	}
}

// members returns the servers of an environment that are alive, by id.
func members(r Reader, environment string, f func(*serverv1.Server)) {
	for s := range r.ServersWhere(environment, nil) {
		if s.Life == serverv1.Life_LIFE_ALIVE {
			f(s)
		}
	}
}

// A default that waits on many servers would come to all of them at once when what it waits for ends: an image is
// activated or promoted, a block is lifted, an agent changes, or a rollout that was to bring it is aborted. More than
// intent.MostAtOnce of them are held, and come by a rollout; the request that set the default may allow it at once.
// Servers that join get their agents as they come.

// hold divides the servers on which an agent could be installed now into those that get it, and those that are held.
func hold(r Reader, ask intent.Ask, waited map[string]bool) (next, held []string) {
	for _, id := range ask.Due {
		if waited[id] {
			held = append(held, id)
		} else {
			next = append(next, id)
		}
	}
	if len(held) == 0 || !tooMany(r, ask, waited) {
		return ask.Due, nil
	}
	return next, held
}

// tooMany reports whether a default could be installed now on more servers that waited than may get it at once.
func tooMany(r Reader, ask intent.Ask, waited map[string]bool) bool {
	e, _ := r.Environment(ask.Intent.Source.Environment)
	agent := intent.AgentOf(ask.Intent)
	d, n := e.GetDefaults()[agent], 0
	if d.GetAtOnce() {
		return false
	}
	for part := range slices.Chunk(slices.Sorted(maps.Keys(waited)), Batch) {
		ask.Due = nil
		for _, id := range part {
			if s, ok := r.Server(id); ok && isMember(s, e.Name) && stateOf(r, s, agent, d) == due {
				ask.Due = append(ask.Due, id)
			}
		}
		if len(ask.Due) == 0 {
			continue
		}
		changed, _ := split(intent.Plan(r, ask))
		if n += len(changed); n > intent.MostAtOnce {
			return true
		}
	}
	return false
}

// Held returns why a default is not installed on servers that are held.
func Held(r Reader, environment, agent string, servers int) *apiv1.Refusal {
	e, _ := r.Environment(environment)
	chosen := intent.Chosen(agent, e.GetDefaults()[agent].GetImage())
	on := &intentv1.Selector{Environment: environment}
	return intent.TooWide(fmt.Sprintf("the default of environment %q waited, and would now install %s", environment,
		agent), servers, intent.InWaves("--install "+chosen, on))
}
