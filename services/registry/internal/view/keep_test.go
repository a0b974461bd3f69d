package view_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/keep"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

// onlineInProd is a view of so many servers of environment prod that are online.
func onlineInProd(ids ...string) *rolled {
	r := &rolled{View: view.New()}
	r.fold(ledger.Environment, "prod", &environmentv1.Created{Environment: &environmentv1.Environment{}})
	for _, id := range ids {
		r.fold(ledger.Server, id, &serverv1.Invited{Name: id, Cell: "main", Environment: "prod"})
		r.fold(ledger.Server, id, &serverv1.Enrolled{Sysinfo: &serverv1.Sysinfo{}})
		r.fold(ledger.Server, id, &serverv1.Online{})
	}
	return r
}

// change folds a decision about web on server s, and how its task ends.
func (r *rolled) change(generation uint64, from, to *imagev1.Ref, end proto.Message) {
	if to != nil {
		r.fold(ledger.Instance, "s.web", &instancev1.Wanted{InstanceId: "n", Generation: generation, Image: to})
	} else {
		r.fold(ledger.Instance, "s.web", &instancev1.Unwanted{InstanceId: "n", Generation: generation})
	}
	id := "t" + string(rune('0'+generation))
	verb := taskv1.Verb_VERB_UPGRADE
	if to == nil {
		verb = taskv1.Verb_VERB_REMOVE
	}
	r.fold(ledger.Task, id, &taskv1.Queued{
		Verb: verb, ServerId: "s", Agent: "web", InstanceId: "n", Generation: generation, Attempt: 1,
		From: from, To: to,
	})
	r.fold(ledger.Task, id, &taskv1.Assigned{})
	r.fold(ledger.Task, id, &taskv1.Started{})
	if end != nil {
		r.fold(ledger.Task, id, end)
	}
}

func TestAServerWorksForABudgetByWhatRunsOnItAndNotByWhatIsWanted(t *testing.T) {
	web1 := &imagev1.Ref{Id: "web1"}
	seen := func(r *rolled, image *imagev1.Ref, health instancev1.Health) {
		r.fold(ledger.Instance, "s.web", &instancev1.Observed{
			InstanceId: "n", Generation: 1, Image: image, Health: health,
		})
	}
	const absent = instancev1.Health_HEALTH_ABSENT
	undone := &taskv1.Undone{Outcome: &taskv1.Outcome{Reason: "x"}}
	failed := &taskv1.Failed{Outcome: &taskv1.Outcome{Reason: "x"}}
	for name, c := range map[string]struct {
		happens func(r *rolled)
		works   bool
	}{
		"as it is wanted":       {func(*rolled) {}, true},
		"a change is under way": {func(r *rolled) { r.change(2, web1, web2, nil) }, false},
		"went back to what ran": {func(r *rolled) {
			r.change(2, web1, web2, undone)
			seen(r, web1, good)
		}, true},
		"went back, and is unhealthy": {func(r *rolled) {
			r.change(2, web1, web2, undone)
			seen(r, web1, bad)
		}, false},
		"went back, and has disappeared": {func(r *rolled) {
			r.change(2, web1, web2, undone)
			seen(r, nil, absent)
		}, false},
		"an end that is not known": {func(r *rolled) { r.change(2, web1, web2, &taskv1.Expired{}) }, false},
		"a removal that failed":    {func(r *rolled) { r.change(2, web1, nil, failed) }, false},
		"a removal that went back": {func(r *rolled) { r.change(2, web1, nil, undone) }, true},
		"another version, healthy": {func(r *rolled) { seen(r, web2, good) }, true},
		"it has disappeared":       {func(r *rolled) { seen(r, nil, absent) }, false},
		"it is unhealthy":          {func(r *rolled) { seen(r, web1, bad) }, false},
	} {
		r := onlineInProd("s")
		r.change(1, nil, web1, &taskv1.Succeeded{})
		seen(r, web1, good)
		if c.happens(r); r.Works("s") != c.works {
			i, _ := r.Instance("s", "web")
			t.Errorf("%s: works is %v, with %v", name, r.Works("s"), i)
		}
	}
	r := onlineInProd("s")
	if r.change(1, nil, web1, undone); !r.Works("s") {
		t.Error("a server does not work after an install that left nothing behind")
	}
}

func TestABudgetCountsTheServersOfItsEnvironmentFromTheTimeThatItIsSet(t *testing.T) {
	r := onlineInProd("s", "u")
	set := func(field string) {
		one := &rolloutv1.Limit{By: &rolloutv1.Limit_Servers{Servers: 1}}
		r.fold(ledger.Environment, "prod", &environmentv1.Changed{Environment: &environmentv1.Environment{
			Keep: []*rolloutv1.Keep{{Field: field, Working: one}},
		}})
	}
	count := func(field, value string) keep.Count {
		return r.InGroup(keep.Group{Environment: "prod", Field: field, Value: value})
	}
	both := keep.Count{All: 2, Working: 2}
	set("env")
	if have := count("env", "prod"); have != both {
		t.Errorf("by environment: %v; want %v", have, both)
	}
	set("label.rack")
	if env, rack := count("env", "prod"), count("label.rack", ""); env != (keep.Count{}) || rack != both {
		t.Errorf("by rack: %v, and still %v by environment; want %v alone", rack, env, both)
	}
}

func TestInstancesAreCountedByTheirWayBack(t *testing.T) {
	r := onlineInProd("s")
	web1, web2 := &imagev1.Ref{Id: "web1"}, &imagev1.Ref{Id: "web2"}
	r.change(1, nil, web1, &taskv1.Succeeded{})
	r.change(2, web1, web2, &taskv1.Succeeded{})
	c := r.CountInstances(view.InstanceFilter{}, []string{"agent", "way-back"}, 10)
	if g := c.GetGroups(); len(g) != 1 || g[0].GetCount() != 1 || g[0].GetValues()[1] != "web1" {
		t.Errorf("%v; want one with a way back to web1", c)
	}
}
