package view

import (
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// The decision for the next generation reached the ledger before the fact that assigns the one before.
func TestAnAssignmentThatIsOvertakenByADecisionChangesNothing(t *testing.T) {
	l := installed(1)
	stale := l.view.Queue.Admissions(time.Time{}, 9, 9)[0]
	configuration := &instancev1.Configuration{Metadata: map[string]string{"port": "1"}, Digest: []byte{1}}
	l.fold(ledger.Instance, "s0.a", &instancev1.Wanted{
		InstanceId: "xs0", Generation: 2, Image: &imagev1.Ref{Id: "i2"}, Configuration: configuration, IntentId: "n2",
	})
	if l.fold(ledger.Task, stale.ID, &taskv1.Assigned{Opened: stale.Opened}) {
		t.Error("the assignment fits")
	}
	if _, _, known := l.view.Rows.Task(stale.ID); known || l.view.Queue.UnderWay() > 0 {
		t.Error("its task is known")
	}
	next := l.view.Queue.Admissions(time.Time{}, 9, 9)
	if len(next) != 1 || next[0].Opened.GetGeneration() != 2 {
		t.Fatalf("assigned next: %v", next)
	}
	if !l.fold(ledger.Task, next[0].ID, &taskv1.Assigned{Opened: next[0].Opened}) {
		t.Error("the next assignment does not fit")
	}
	i, _ := l.view.instances.table.Get("s0.a")
	if i.GetPlaced().GetId() != "i2" || i.GetPlacedConfiguration().GetMetadata()["port"] != "1" {
		t.Errorf("placed: %v, %v", i.GetPlaced(), i.GetPlacedConfiguration())
	}
	l.fold(ledger.Instance, "s0.a", &instancev1.Gone{InstanceId: "xs0"})
	if l.fold(ledger.Task, "another", &taskv1.Assigned{Opened: next[0].Opened}) {
		t.Error("an instance that is gone is assigned")
	}
}

// Of a batch of decisions the first is seen before the others, so what may have to wait for another agent is queued.
func TestAChangeThatMayWaitForAnotherAgentIsQueued(t *testing.T) {
	l := installed(1)
	if n := len(l.view.Queue.Admissions(time.Time{}, 9, 9)); n != 1 {
		t.Fatalf("%d assigned, want 1: the agent needs no other", n)
	}
	l.fold(ledger.Agent, "a", &agentv1.Created{Agent: &agentv1.Agent{Name: "a", Dependencies: []string{"b"}}})
	if n := len(l.view.Queue.Admissions(time.Time{}, 9, 9)); n != 0 {
		t.Errorf("%d assigned, want 0: what the agent needs may be decided in the next fact", n)
	}
	l.open(9)
	if n := len(l.view.Queue.Admissions(time.Time{}, 9, 9)); n != 1 {
		t.Errorf("%d assigned from the queue, want 1", n)
	}
}

// A change that is decided later takes no slot before one that was decided before and is queued.
func TestAQueuedChangeKeepsItsPlace(t *testing.T) {
	l := installed(3)
	l.open(1)
	var order []string
	for _, a := range l.view.Queue.Admissions(time.Time{}, 9, 9) {
		order = append(order, a.task.ServerId)
	}
	if len(order) != 3 || order[0] != "s0" || order[1] != "s1" || order[2] != "s2" {
		t.Errorf("assigned in the order %v", order)
	}
}

func TestAChangeOfAWithdrawnIntentTakesNeitherASlotNorRoom(t *testing.T) {
	l := installed(2)
	l.fold(ledger.Intent, "n1", &intentv1.Withdrawn{})
	if left := l.view.Queue.Admissions(time.Time{}, 1, 9); len(left) > 0 {
		t.Errorf("assigned: %v", left)
	}
	if n := len(l.view.Queue.Openings(9)); n != 2 {
		t.Errorf("%d are opened to be ended, want 2", n)
	}
}
