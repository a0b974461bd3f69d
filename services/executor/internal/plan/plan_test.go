package plan_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/plan"
)

func entry(agent, task string, tier uint32, needs ...string) *desiredv1.Entry {
	return &desiredv1.Entry{
		Agent:        agent,
		InstanceId:   "i-" + agent,
		TaskId:       task,
		Tier:         tier,
		Dependencies: needs,
		Image:        &imagev1.Manifest{Id: "new"},
	}
}

// apart returns an entry that must not be on a server with another agent.
func apart(e *desiredv1.Entry, other string) *desiredv1.Entry {
	e.Image.Conflicts = []string{other}
	return e
}

func TestNeedsAreTheDependenciesThatDoNotWaitForTheAgentItself(t *testing.T) {
	a := entry("a", "t", 1, "absent", "circle", "higher", "lower")
	d := &desiredv1.Document{
		Entries: []*desiredv1.Entry{a, entry("circle", "t", 1, "a"), entry("higher", "t", 2), entry("lower", "t", 1)},
	}
	if diff := cmp.Diff([]string{"absent", "lower"}, plan.Needs(d, a)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

var current = map[string]plan.Have{"a": {InstanceID: "i-a", ImageID: "new"}}

// situations are what a server has and is asked, and the agents whose changes begin.
var situations = map[string]struct {
	entries  []*desiredv1.Entry
	removals []*desiredv1.Removal
	have     map[string]plan.Have
	busy     []string
	ended    []string
	tried    bool
	damaged  bool
	want     []string
}{
	"a task begins": {
		entries: []*desiredv1.Entry{entry("a", "t", 0)}, want: []string{"a"},
	},
	"a task that ended does not": {
		entries: []*desiredv1.Entry{entry("a", "t", 0)}, ended: []string{"t"},
	},
	"a busy agent waits": {
		entries: []*desiredv1.Entry{entry("a", "t", 0)}, busy: []string{"a"},
	},
	"lower tiers first": {
		entries: []*desiredv1.Entry{entry("a", "t", 2), entry("b", "u", 1)}, want: []string{"b"},
	},
	"a busy lower tier is waited for": {
		entries: []*desiredv1.Entry{entry("a", "t", 2), entry("b", "u", 1)}, busy: []string{"b"},
	},
	"equal tiers together": {
		entries: []*desiredv1.Entry{entry("b", "t", 1), entry("a", "u", 1)}, want: []string{"a", "b"},
	},
	"dependencies first": {
		entries: []*desiredv1.Entry{entry("a", "t", 1, "b"), entry("b", "u", 1)}, want: []string{"b"},
	},
	"a circle goes on by name": {
		entries: []*desiredv1.Entry{entry("a", "t", 1, "b"), entry("b", "u", 1, "a")}, want: []string{"a"},
	},
	"a dependency of a higher tier": {
		entries: []*desiredv1.Entry{entry("a", "t", 1, "b"), entry("b", "u", 2)}, want: []string{"a"},
	},
	"a conflict waits for the removal": {
		entries:  []*desiredv1.Entry{apart(entry("b", "t", 1), "a")},
		removals: []*desiredv1.Removal{{Agent: "a", InstanceId: "i-a"}}, have: current, want: []string{"a"},
	},
	"a conflict waits while it goes on": {
		entries:  []*desiredv1.Entry{apart(entry("b", "t", 1), "a")},
		removals: []*desiredv1.Removal{{Agent: "a", InstanceId: "i-a", TaskId: "u"}}, busy: []string{"a"},
	},
	"and no longer": {
		entries:  []*desiredv1.Entry{apart(entry("b", "t", 1), "a")},
		removals: []*desiredv1.Removal{{Agent: "a", InstanceId: "i-a", TaskId: "u"}}, ended: []string{"u"},
		want: []string{"b"},
	},
	"what is there already is left alone": {entries: []*desiredv1.Entry{entry("a", "", 0)}, have: current},
	"what differs converges": {
		entries: []*desiredv1.Entry{entry("a", "", 0)},
		have:    map[string]plan.Have{"a": {InstanceID: "i-a", ImageID: "old"}}, want: []string{"a"},
	},
	"other metadata converges": {
		entries: []*desiredv1.Entry{entry("a", "", 0)},
		have:    map[string]plan.Have{"a": {InstanceID: "i-a", ImageID: "new", Configuration: "c"}},
		want:    []string{"a"},
	},
	"what is damaged converges": {
		entries: []*desiredv1.Entry{entry("a", "", 0)}, have: current, damaged: true, want: []string{"a"},
	},
	"but not at once again": {entries: []*desiredv1.Entry{entry("a", "", 0)}, tried: true},
	"absence is left alone": {have: current},
	"a removal begins": {
		removals: []*desiredv1.Removal{{Agent: "a", InstanceId: "x", TaskId: "t"}}, want: []string{"a"},
	},
	"a removal without a task needs the instance": {
		removals: []*desiredv1.Removal{{Agent: "a", InstanceId: "x"}}, have: current,
	},
}

func TestNext(t *testing.T) {
	for name, c := range situations {
		t.Run(name, func(t *testing.T) {
			s := plan.Situation{
				Have: c.have, Busy: map[string]bool{},
				Ended:  func(id string) bool { return slices.Contains(c.ended, id) },
				Tried:  func(plan.Action) bool { return c.tried },
				Intact: func(string) bool { return !c.damaged },
			}
			for _, b := range c.busy {
				s.Busy[b] = true
			}
			var got []string
			for _, a := range plan.Next(&desiredv1.Document{Entries: c.entries, Removals: c.removals}, s) {
				got = append(got, a.Agent())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// To look whether files are in place costs a walk over them.
func TestFilesAreLookedAtOnlyWhereNothingElseDecides(t *testing.T) {
	have := map[string]plan.Have{}
	for _, agent := range []string{"same", "busy", "tried", "asked", "absent"} {
		have[agent] = plan.Have{InstanceID: "i-" + agent, ImageID: "new"}
	}
	have["other"] = plan.Have{InstanceID: "i-other", ImageID: "old"}
	var looked []string
	plan.Next(&desiredv1.Document{Entries: []*desiredv1.Entry{
		entry(
			"same",
			"",
			0,
		), entry("busy", "", 0), entry("tried", "", 0), entry("asked", "task", 0), entry("other", "", 0), entry("new",
			"", 0),
	}}, plan.Situation{
		Have: have, Busy: map[string]bool{"busy": true},
		Ended:  func(string) bool { return true },
		Tried:  func(a plan.Action) bool { return a.Agent() == "tried" },
		Intact: func(agent string) bool { looked = append(looked, agent); return true },
	})
	if diff := cmp.Diff([]string{"same"}, looked); diff != "" {
		t.Errorf("looked at (-want +got):\n%s", diff)
	}
}
