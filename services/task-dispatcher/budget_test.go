package dispatcher

import (
	"maps"
	"slices"
	"testing"

	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/task"
)

// mostAway walks the ledger, and returns how many servers had a task under way at once at most, and the intents whose
// tasks were under way then.
func (w *world) mostAway() (most int, intents map[string]bool) {
	w.t.Helper()
	tasks, away, of := map[string]*taskv1.Task{}, map[string]string{}, map[string]bool{}
	for _, f := range w.ledgerFacts() {
		if f.Noun != ledger.Task || f.Name() == "claimed" {
			continue
		}
		next, fit := task.Apply(tasks[f.Key], f)
		if tasks[f.Key] = next; !fit {
			continue
		}
		if task.UnderWay(next.State) {
			away[f.Key], of[next.IntentId] = next.ServerId, true
		} else {
			delete(away, f.Key)
		}
		servers := slices.Sorted(maps.Values(away))
		most = max(most, len(slices.Compact(servers)))
	}
	return most, of
}

// Each rollout would be within the budget alone. Both share it, over two dispatchers, on different and on the same
// servers.
func TestTwoRolloutsShareTheBudgetOfTheirEnvironment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.execute(nil)
	first, _ := w.start(Config{Concurrency: 100})
	w.start(Config{Concurrency: 100})
	const all, keep = 8, 6
	fleet := servers(all)
	w.enrol(fleet...)
	w.say(ledger.Environment, "prod", &environmentv1.Created{Environment: &environmentv1.Environment{
		Name: "prod", Keep: []*rolloutv1.Keep{{
			Field: "label.rack", Working: &rolloutv1.Limit{By: &rolloutv1.Limit_Servers{Servers: keep}},
		}},
	}})
	for _, id := range fleet {
		w.say(ledger.Server, id, &serverv1.Changed{
			Name: "host", Environment: "prod", Labels: map[string]string{"rack": "a"},
		})
	}
	images := map[string]*imagev1.Ref{"web": w.image("web", "1.0.0"), "db": w.image("db", "1.0.0")}
	w.wantAll(fleet[:5], []string{"web"}, 1, images["web"])
	w.wantAll(fleet[3:], []string{"db"}, 1, images["db"])
	w.awaitEnds(first, 10)
	most, intents := w.mostAway()
	if most > all-keep {
		t.Errorf("%d servers are changed at once, want %d at most", most, all-keep)
	}
	if len(intents) != 2 {
		t.Errorf("tasks of %d rollouts were under way, want 2", len(intents))
	}
}
