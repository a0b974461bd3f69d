package view

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

func keepOf(field string, servers uint32) *rolloutv1.Keep {
	return &rolloutv1.Keep{Field: field, Working: &rolloutv1.Limit{By: &rolloutv1.Limit_Servers{Servers: servers}}}
}

// keepStep changes the keep budgets of the environment, or creates or deletes it.
func (s *story) keepStep() {
	e := &environmentv1.Environment{Name: "prod"}
	if n := uint32(s.number("working", 3)); n > 0 {
		e.Keep = append(e.Keep, keepOf(s.pick("field", "env", "label.n"), n-1))
	}
	all := []proto.Message{
		&environmentv1.Created{Environment: e}, &environmentv1.Created{Environment: e},
		&environmentv1.Changed{Environment: e}, &environmentv1.Changed{Environment: e}, &environmentv1.Deleted{},
	}
	s.fold(ledger.Environment, "prod", all[s.number("fact", len(all)-1)])
}

// checkKeep states the promise of keep budgets anew, from the tables alone: what is admitted leaves as many working
// servers in each group as its budget needs, unless it takes none of them.
func checkKeep(t *rapid.T, v *View, admitted []Admission) {
	taken := map[string]bool{}
	for _, a := range admitted {
		if a.task.Verb != taskv1.Verb_VERB_REFRESH {
			taken[a.task.ServerId] = true
		}
	}
	e, _ := v.settings.Get("prod")
	for _, k := range e.GetKeep() {
		left, lost := map[string]int{}, map[string]int{}
		for id, s := range v.servers.All() {
			if s.Environment != "prod" || s.Life != serverv1.Life_LIFE_ALIVE || !up(v, id) {
				continue
			}
			group := ""
			if k.Field == "label.n" {
				group = s.Labels["n"]
			}
			if taken[id] {
				lost[group]++
			} else {
				left[group]++
			}
		}
		for group := range lost {
			if need := int(k.Working.GetServers()); left[group] < need {
				t.Fatalf("%d working servers of %s %q are taken, which leaves %d; %d must stay", lost[group], k.Field,
					group, left[group], need)
			}
		}
	}
}

// up reports whether a living server works, from the tables.
func up(v *View, server string) bool {
	s, _ := v.servers.Get(server)
	if s.Presence != serverv1.Presence_PRESENCE_ONLINE || s.Standing != serverv1.Standing_STANDING_ENROLLED ||
		s.Ahead || s.Duplicated {
		return false
	}
	for _, r := range v.tasks.All() {
		underWay := r.Task.State == taskv1.State_STATE_ASSIGNED || r.Task.State == taskv1.State_STATE_RUNNING
		if underWay && r.Task.ServerId == server && r.Task.Verb != taskv1.Verb_VERB_REFRESH {
			return false
		}
	}
	for _, i := range v.instances.table.All() {
		if i.ServerId == server && (i.Placed != nil && i.Unwell || i.Unsettled && i.OpenTaskId == "") {
			return false
		}
	}
	return true
}

// rack is a fleet of three servers of one rack that want an agent, in an environment that keeps two of them working.
func rack(t *testing.T) (*View, func(ledger.Noun, string, proto.Message)) {
	v, sequence := New(nil), uint64(0)
	fold := func(noun ledger.Noun, key string, body proto.Message) {
		t.Helper()
		if sequence++; !v.Apply(ledger.Fact{Noun: noun, Key: key, Body: body, Sequence: sequence}) {
			t.Fatalf("%T of %s does not fit", body, key)
		}
	}
	e := &environmentv1.Environment{Keep: []*rolloutv1.Keep{keepOf("label.rack", 2)}}
	fold(ledger.Environment, "prod", &environmentv1.Created{Environment: e})
	fold(ledger.Image, "i1", &imagev1.Created{Manifest: &imagev1.Manifest{Id: "i1"}})
	for _, id := range []string{"s1", "s2", "s3"} {
		labels := map[string]string{"rack": "a"}
		fold(ledger.Server, id, &serverv1.Invited{Environment: "prod", Labels: labels})
		fold(ledger.Server, id, &serverv1.Enrolled{})
		fold(ledger.Server, id, &serverv1.Online{})
		fold(ledger.Instance, ledger.Key(id, "web"), &instancev1.Wanted{
			InstanceId: "x" + id, Generation: 1, Image: &imagev1.Ref{Id: "i1"}, IntentId: "n",
		})
	}
	for _, o := range v.Queue.Openings(10) {
		fold(ledger.Task, o.ID, o.Body)
	}
	return v, fold
}

func TestOneServerOfARackIsChangedAtATime(t *testing.T) {
	v, fold := rack(t)
	for n := range 3 {
		admitted := v.Queue.Admissions(time.Time{}, 10, 10)
		if len(admitted) != 1 {
			t.Fatalf("round %d: %d tasks are admitted; want 1", n, len(admitted))
		}
		fold(ledger.Task, admitted[0].ID, &taskv1.Assigned{})
		if more := v.Queue.Admissions(time.Time{}, 10, 10); len(more) > 0 {
			t.Fatalf("round %d: %d more tasks are admitted beside the first one", n, len(more))
		}
		for _, task := range v.tasks.All() {
			if task.Task.State == taskv1.State_STATE_QUEUED && !strings.Contains(v.Listing.Explained(task).Reason,
				"2 of 3 servers of label.rack a work and are not being changed, and the keep budget of environment "+
					"prod needs 2") {
				t.Errorf("a task waits because %q", v.Listing.Explained(task).Reason)
			}
		}
		fold(ledger.Task, admitted[0].ID, &taskv1.Succeeded{})
	}
}

func TestAServerThatDoesNotWorkCostsNothing(t *testing.T) {
	v, fold := rack(t)
	first := v.Queue.Admissions(time.Time{}, 10, 10)[0]
	fold(ledger.Task, first.ID, &taskv1.Assigned{})
	fold(ledger.Task, first.ID, &taskv1.Succeeded{})
	r, _ := v.tasks.Get(first.ID)
	key := ledger.Key(r.Task.ServerId, "web")
	unhealthy := &instancev1.Observed{InstanceId: "x" + r.Task.ServerId, Health: instancev1.Health_HEALTH_BAD}
	fold(ledger.Instance, key, unhealthy)
	if held := v.Queue.Admissions(time.Time{}, 10, 10); len(held) > 0 {
		t.Fatalf("%d tasks are admitted although only two servers work", len(held))
	}
	fold(ledger.Instance, key, &instancev1.Wanted{
		InstanceId: "x" + r.Task.ServerId, Generation: 2, Image: &imagev1.Ref{Id: "i1"}, IntentId: "cure",
	})
	for _, o := range v.Queue.Openings(10) {
		fold(ledger.Task, o.ID, o.Body)
	}
	cure := v.Queue.Admissions(time.Time{}, 10, 10)
	if len(cure) != 1 || cure[0].Intent != "cure" {
		t.Errorf("admitted %v; want the repair of the broken server alone", cure)
	}
}

// An agent that dies after its health check may be reported before the task's end is recorded.
func TestAnAgentSeenBrokenBeforeItsTaskEndedStaysBroken(t *testing.T) {
	v, fold := rack(t)
	first := v.Queue.Admissions(time.Time{}, 10, 10)[0]
	r, _ := v.tasks.Get(first.ID)
	fold(ledger.Task, first.ID, &taskv1.Assigned{})
	fold(ledger.Instance, ledger.Key(r.Task.ServerId, "web"), &instancev1.Observed{
		InstanceId: "x" + r.Task.ServerId, Health: instancev1.Health_HEALTH_BAD, Generation: r.Task.Generation,
	})
	fold(ledger.Task, first.ID, &taskv1.Succeeded{})
	if more := v.Queue.Admissions(time.Time{}, 10, 10); len(more) > 0 {
		t.Errorf("%d tasks are admitted although only two servers work", len(more))
	}
}

func TestWithoutItsBudgetNoTaskWaits(t *testing.T) {
	v, fold := rack(t)
	fold(ledger.Environment, "prod", &environmentv1.Changed{Environment: &environmentv1.Environment{}})
	if n := len(v.Queue.Admissions(time.Time{}, 10, 10)); n != 3 {
		t.Errorf("%d tasks are admitted; want 3", n)
	}
}

func TestAnOutdatedObservationMakesNoAgentWell(t *testing.T) {
	made := time.Unix(100, 0)
	i := &dispatcherv1.InstanceRecord{Unwell: true, ObservedReport: 5, ReportedAt: timestamppb.New(made)}
	New(nil).keeps.observed(i, &instancev1.Observed{
		Health: instancev1.Health_HEALTH_GOOD, Report: 4, ReportedAt: timestamppb.New(made.Add(-time.Second)),
	})
	if !i.Unwell || i.ObservedReport != 5 {
		t.Errorf("the record is %v", i)
	}
}
