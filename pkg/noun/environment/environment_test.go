package environment_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/environment"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

const (
	onNew = environmentv1.Reach_REACH_NEW
	onAll = environmentv1.Reach_REACH_ALL
)

// apply folds bodies as the facts 1, 2, 3 … and returns the record after them and whether the last one fit.
func apply(bodies ...proto.Message) (e *environmentv1.Environment, fit bool) {
	for n, b := range bodies {
		e, fit = environment.Apply(e, ledger.Fact{
			Noun: ledger.Environment, Key: "prod", Body: b, Sequence: uint64(n + 1), Actor: "alice",
		})
	}
	return e, fit
}

func created() proto.Message {
	return &environmentv1.Created{Environment: &environmentv1.Environment{
		Defaults: map[string]*environmentv1.Default{"forged": {}},
	}}
}

var (
	unset = &environmentv1.DefaultUnset{Agent: "web"}
	kept  = &environmentv1.DefaultSet{Agent: "web", Reach: onAll, KeepReach: true}
)

func set(reach environmentv1.Reach) proto.Message {
	return &environmentv1.DefaultSet{Agent: "web", Reach: reach}
}

// again is what the undo of a rollout sets again.
func again(reach environmentv1.Reach, allSince uint64) proto.Message {
	return &environmentv1.DefaultSet{Agent: "web", Reach: reach, KeepReach: true, AllSince: &allSince}
}

func TestOnlyItsOwnFactsChangeADefault(t *testing.T) {
	changed := &environmentv1.Changed{Environment: &environmentv1.Environment{Channel: "dev"}}
	e, _ := apply(created(), set(onNew), changed)
	d := e.Defaults["web"]
	if len(e.Defaults) != 1 || d.GetRevision() != 2 || d.Actor != "alice" || e.Channel != "dev" {
		t.Errorf("have %v; want the default of alice for web and the channel dev", e)
	}
	if e, fit := apply(created(), set(onNew), unset); len(e.Defaults) != 0 || !fit {
		t.Errorf("after unset: %v, fit %v", e, fit)
	}
	if _, fit := apply(created(), unset); fit {
		t.Error("unset without a default fits")
	}
	if _, fit := apply(set(onNew)); fit {
		t.Error("a default of an unknown environment fits")
	}
}

func TestADefaultAppliesToServersInItsReach(t *testing.T) {
	for name, c := range map[string]struct {
		joined  uint64
		facts   []proto.Message // after created, from sequence 2
		since   uint64
		applies bool
	}{
		"joined before, new":                {1, []proto.Message{set(onNew)}, 0, false},
		"joined after, new":                 {9, []proto.Message{set(onNew)}, 9, true},
		"joined before, all":                {1, []proto.Message{set(onAll)}, 2, true},
		"joined after, all":                 {9, []proto.Message{set(onAll)}, 9, true},
		"set again for all after it joined": {3, []proto.Message{set(onNew), set(onNew), set(onAll)}, 4, true},
		"set again for new after it joined": {3, []proto.Message{set(onNew), set(onNew), set(onNew)}, 3, true},
		"set for all, then for new":         {1, []proto.Message{set(onAll), set(onNew)}, 2, true},
		"set for all, and kept":             {1, []proto.Message{set(onAll), kept}, 2, true},
		"set for new, and kept for all":     {1, []proto.Message{set(onNew), kept}, 3, true},
		"set again as it was, for new":      {1, []proto.Message{set(onNew), set(onAll), again(onNew, 0)}, 0, false},
		"set again as it was, for all":      {1, []proto.Message{set(onAll), set(onAll), again(onAll, 2)}, 2, true},
		"unset, then set for new":           {3, []proto.Message{set(onAll), unset, set(onNew)}, 0, false},
	} {
		e, _ := apply(append([]proto.Message{created()}, c.facts...)...)
		since, applies := environment.AppliesSince(e.Defaults["web"], &serverv1.Server{EnvironmentJoined: c.joined})
		if since != c.since || applies != c.applies {
			t.Errorf("%s: %d, %v; want %d, %v", name, since, applies, c.since, c.applies)
		}
	}
}
