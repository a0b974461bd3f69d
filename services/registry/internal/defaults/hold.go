package defaults

import (
	"fmt"
	"maps"
	"slices"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
)

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
		agent), servers, fmt.Sprintf("%s; or garrison env default set %s %s --reach all --at-once",
		intent.InWaves("--install "+chosen, on), environment, chosen))
}
