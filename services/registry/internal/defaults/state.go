package defaults

import (
	"slices"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/environment"
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
