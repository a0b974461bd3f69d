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
	return &desiredv1.Entry{Agent: agent, InstanceId: "i-" + agent, TaskId: task, Tier: tier, Dependencies: needs, Image: &imagev1.Manifest{Id: "new"}}
}

func TestNext(t *testing.T) {
	current := map[string]plan.Have{"a": {InstanceID: "i-a", ImageID: "new", Intact: true}}
	for name, c := range map[string]struct {
		entries  []*desiredv1.Entry
		removals []*desiredv1.Removal
		have     map[string]plan.Have
		busy     []string
		ended    []string
		tried    bool
		want     []string
	}{
		"a task begins":                               {entries: []*desiredv1.Entry{entry("a", "t", 0)}, want: []string{"a"}},
		"a task that ended does not":                  {entries: []*desiredv1.Entry{entry("a", "t", 0)}, ended: []string{"t"}},
		"a busy agent waits":                          {entries: []*desiredv1.Entry{entry("a", "t", 0)}, busy: []string{"a"}},
		"lower tiers first":                           {entries: []*desiredv1.Entry{entry("a", "t", 2), entry("b", "u", 1)}, want: []string{"b"}},
		"a busy lower tier is waited for":             {entries: []*desiredv1.Entry{entry("a", "t", 2), entry("b", "u", 1)}, busy: []string{"b"}},
		"equal tiers together":                        {entries: []*desiredv1.Entry{entry("b", "t", 1), entry("a", "u", 1)}, want: []string{"a", "b"}},
		"dependencies first":                          {entries: []*desiredv1.Entry{entry("a", "t", 1, "b"), entry("b", "u", 1)}, want: []string{"b"}},
		"a circle goes on by name":                    {entries: []*desiredv1.Entry{entry("a", "t", 1, "b"), entry("b", "u", 1, "a")}, want: []string{"a"}},
		"a dependency of a higher tier":               {entries: []*desiredv1.Entry{entry("a", "t", 1, "b"), entry("b", "u", 2)}, want: []string{"a"}},
		"what is there already is left alone":         {entries: []*desiredv1.Entry{entry("a", "", 0)}, have: current},
		"what differs converges":                      {entries: []*desiredv1.Entry{entry("a", "", 0)}, have: map[string]plan.Have{"a": {InstanceID: "i-a", ImageID: "old", Intact: true}}, want: []string{"a"}},
		"what is damaged converges":                   {entries: []*desiredv1.Entry{entry("a", "", 0)}, have: map[string]plan.Have{"a": {InstanceID: "i-a", ImageID: "new"}}, want: []string{"a"}},
		"but not at once again":                       {entries: []*desiredv1.Entry{entry("a", "", 0)}, tried: true},
		"absence is left alone":                       {have: current},
		"a removal begins":                            {removals: []*desiredv1.Removal{{Agent: "a", InstanceId: "x", TaskId: "t"}}, want: []string{"a"}},
		"a removal without a task needs the instance": {removals: []*desiredv1.Removal{{Agent: "a", InstanceId: "x"}}, have: current},
	} {
		t.Run(name, func(t *testing.T) {
			s := plan.Situation{
				Have: c.have, Busy: map[string]bool{},
				Ended: func(id string) bool { return slices.Contains(c.ended, id) },
				Tried: func(plan.Action) bool { return c.tried },
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
