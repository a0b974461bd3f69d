package view

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// A dying server loses agents that need others first, and then from the highest tier down.
func TestADyingServersAgentsAreRemovedInReverseOrder(t *testing.T) {
	v, n := New(nil), uint64(0)
	fold := func(noun ledger.Noun, key string, body proto.Message) {
		n++
		v.Apply(ledger.Fact{Noun: noun, Key: key, Body: body, At: time.Unix(int64(n), 0), Sequence: n})
	}
	for _, a := range []*agentv1.Agent{
		{Name: "lib", Tier: 2}, {Name: "app", Tier: 2, Dependencies: []string{"lib"}}, {Name: "base", Tier: 1},
	} {
		fold(ledger.Agent, a.Name, &agentv1.Created{Agent: a})
	}
	fold(ledger.Image, "i", &imagev1.Created{Manifest: &imagev1.Manifest{Id: "i"}})
	fold(ledger.Server, "s", &serverv1.Invited{Cell: "main"})
	fold(ledger.Server, "s", &serverv1.Enrolled{})
	fold(ledger.Server, "s", &serverv1.Online{})
	agents := []string{"base", "lib", "app"}
	for _, a := range agents {
		wanted := &instancev1.Wanted{InstanceId: a, Generation: 1, Image: &imagev1.Ref{Id: "i"}}
		fold(ledger.Instance, ledger.Key("s", a), wanted)
	}
	// change brings every due task to its end, and returns the agents in that order.
	change := func() (order []string) {
		for range agents {
			for _, o := range v.Queue.Openings(10) {
				fold(ledger.Task, o.ID, o.Body)
			}
			for _, a := range v.Queue.Admissions(time.Time{}, 10, 10) {
				until := timestamppb.New(time.Unix(9999, 0))
				fold(ledger.Task, a.ID, &taskv1.Assigned{Opened: a.Opened, Deadline: until})
				task, _, _ := v.Rows.Task(a.ID)
				order = append(order, task.Agent)
			}
			listed, _ := v.Listing.List(Filter{Limit: 10})
			for _, task := range listed {
				fold(ledger.Task, task.Id, &taskv1.Succeeded{})
			}
		}
		return order
	}
	if diff := cmp.Diff([]string{"base", "lib", "app"}, change()); diff != "" {
		t.Errorf("installed: %s", diff)
	}
	fold(ledger.Server, "s", &serverv1.Dying{})
	for _, a := range agents {
		fold(ledger.Instance, ledger.Key("s", a), &instancev1.Unwanted{InstanceId: a, Generation: 2})
	}
	if diff := cmp.Diff([]string{"app", "lib", "base"}, change()); diff != "" {
		t.Errorf("removed: %s", diff)
	}
}

// No report comes from a server that was given up, so what was under way there does not wait for its deadline.
func TestWhatIsUnderWayOnALostServerIsDueAtOnce(t *testing.T) {
	v, n := New(nil), uint64(0)
	fold := func(noun ledger.Noun, key string, body proto.Message) {
		n++
		v.Apply(ledger.Fact{Noun: noun, Key: key, Body: body, At: time.Unix(int64(n), 0), Sequence: n})
	}
	fold(ledger.Agent, "a", &agentv1.Created{Agent: &agentv1.Agent{Name: "a"}})
	fold(ledger.Image, "i", &imagev1.Created{Manifest: &imagev1.Manifest{Id: "i"}})
	fold(ledger.Server, "s", &serverv1.Invited{Cell: "main"})
	fold(ledger.Server, "s", &serverv1.Enrolled{})
	fold(ledger.Server, "s", &serverv1.Online{})
	fold(ledger.Instance, ledger.Key("s", "a"),
		&instancev1.Wanted{InstanceId: "a", Generation: 1, Image: &imagev1.Ref{Id: "i"}})
	for _, o := range v.Queue.Openings(10) {
		fold(ledger.Task, o.ID, o.Body)
	}
	for _, a := range v.Queue.Admissions(time.Time{}, 10, 10) {
		fold(ledger.Task, a.ID, &taskv1.Assigned{Opened: a.Opened, Deadline: timestamppb.New(time.Unix(9999, 0))})
	}
	if overdue := v.Queue.Overdue(time.Unix(100, 0), 10); len(overdue) > 0 {
		t.Fatalf("overdue before the server is given up: %v", overdue)
	}
	fold(ledger.Instance, ledger.Key("s", "a"), &instancev1.Gone{InstanceId: "a", Lost: true})
	fold(ledger.Server, "s", &serverv1.Dead{Lost: true})
	overdue := v.Queue.Overdue(time.Unix(100, 0), 10)
	if len(overdue) != 1 || !overdue[0].Body.(*taskv1.Expired).ServerDead {
		t.Fatalf("overdue on the dead server: %v, want its task", overdue)
	}
	fold(ledger.Task, overdue[0].ID, overdue[0].Body)
	if next, more := v.Queue.NextDeadline(); more {
		t.Errorf("a deadline is left: %v", next)
	}
}
