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

// A server that dies loses what needs others first, and then from the highest tier down.
func TestADyingServersAgentsGoInReverseOrder(t *testing.T) {
	v, n := New(nil), uint64(0)
	tell := func(noun ledger.Noun, key string, body proto.Message) {
		n++
		v.Apply(ledger.Fact{Noun: noun, Key: key, Body: body, At: time.Unix(int64(n), 0), Sequence: n})
	}
	for _, a := range []*agentv1.Agent{
		{Name: "lib", Tier: 2}, {Name: "app", Tier: 2, Dependencies: []string{"lib"}}, {Name: "base", Tier: 1},
	} {
		tell(ledger.Agent, a.Name, &agentv1.Created{Agent: a})
	}
	tell(ledger.Image, "i", &imagev1.Created{Manifest: &imagev1.Manifest{Id: "i"}})
	tell(ledger.Server, "s", &serverv1.Invited{Cell: "main"})
	tell(ledger.Server, "s", &serverv1.Enrolled{})
	tell(ledger.Server, "s", &serverv1.Online{})
	agents := []string{"base", "lib", "app"}
	for _, a := range agents {
		wanted := &instancev1.Wanted{InstanceId: a, Generation: 1, Image: &imagev1.Ref{Id: "i"}}
		tell(ledger.Instance, ledger.Key("s", a), wanted)
	}
	// change lets everything that is due come to its end, and returns the agents in that order.
	change := func() (order []string) {
		for range agents {
			for _, o := range v.Openings(10) {
				tell(ledger.Task, o.ID, o.Body)
			}
			for _, a := range v.Admissions(10, 10) {
				tell(ledger.Task, a.ID, &taskv1.Assigned{Deadline: timestamppb.New(time.Unix(9999, 0))})
				task, _, _ := v.Task(a.ID)
				order = append(order, task.Agent)
			}
			listed, _ := v.List(Filter{Limit: 10})
			for _, task := range listed {
				tell(ledger.Task, task.Id, &taskv1.Succeeded{})
			}
		}
		return order
	}
	if diff := cmp.Diff([]string{"base", "lib", "app"}, change()); diff != "" {
		t.Errorf("installed: %s", diff)
	}
	tell(ledger.Server, "s", &serverv1.Dying{})
	for _, a := range agents {
		tell(ledger.Instance, ledger.Key("s", a), &instancev1.Unwanted{InstanceId: a, Generation: 2})
	}
	if diff := cmp.Diff([]string{"app", "lib", "base"}, change()); diff != "" {
		t.Errorf("removed: %s", diff)
	}
}
