package admission

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

func TestAChangeThatMayNotWaitWaitsForNoOther(t *testing.T) {
	online := Server{
		Life: serverv1.Life_LIFE_ALIVE, Presence: serverv1.Presence_PRESENCE_ONLINE,
		Standing: serverv1.Standing_STANDING_ENROLLED,
	}
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d"}
		agents := map[string]Agent{}
		for _, name := range names {
			agents[name] = Agent{
				Tier:         rapid.Uint32Range(0, 2).Draw(t, "tier"),
				Dependencies: rapid.SliceOfN(rapid.SampledFrom(names), 0, 2).Draw(t, "needs"),
			}
		}
		ranks := NewRanks(maps.All(agents))
		var tasks []Task
		for n, name := range names {
			tasks = append(tasks, Task{
				ID: name, Agent: name, Queued: uint64(n + 1), Removes: rapid.Bool().Draw(t, "removes"),
			})
		}
		for n, reason := range Decide(online, tasks, func(name string) Agent { return agents[name] }) {
			if x := tasks[n]; reason != "" && !ranks.MayWait(x.Agent, x.Removes) {
				t.Errorf("the change of %s (removal: %v) %s; agents: %v", x.Agent, x.Removes, reason, agents)
			}
		}
	})
}

func TestAgentsWithoutOrderNeverWait(t *testing.T) {
	agents := map[string]Agent{"a": {Tier: 5}, "b": {Tier: 5}, "c": {Tier: 5}}
	ranks := NewRanks(maps.All(agents))
	for name := range agents {
		if ranks.MayWait(name, false) || ranks.MayWait(name, true) {
			t.Errorf("a change of %s may wait", name)
		}
	}
	ordered := NewRanks(maps.All(map[string]Agent{"db": {}, "app": {Dependencies: []string{"db"}}, "last": {Tier: 1}}))
	have := []bool{
		ordered.MayWait("db", false), ordered.MayWait("app", false), ordered.MayWait("last", false),
		ordered.MayWait("db", true), ordered.MayWait("app", true), ordered.MayWait("last", true),
	}
	if want := []bool{false, true, true, true, true, false}; !slices.Equal(have, want) {
		t.Errorf("db, app and last may wait, then their removals: %v, want %v", have, want)
	}
}
