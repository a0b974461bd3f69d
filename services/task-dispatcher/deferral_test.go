package dispatcher

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/task"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

func (w *world) defers(server, id string, d *taskv1.Deferral) {
	w.t.Helper()
	w.publish(topology.ReportSubject(topology.ServerAddress{Cell: "main", Server: server}, topology.ReportTask),
		&reportv1.Report{ServerId: server, BootId: "b", At: timestamppb.Now(), Body: &reportv1.Report_Task{
			Task: &reportv1.TaskReport{TaskId: id, State: taskv1.State_STATE_RUNNING, Deferral: d},
		}})
}

// awaitDeferred returns the task of the agent shipper in a generation once it waits on its server.
func (w *world) awaitDeferred(d *Dispatcher, server string, generation uint64) (deferred *taskv1.Task) {
	w.t.Helper()
	polltest.Eventually(w.t, "the task waits on its server", func() bool {
		deferred = w.awaitTask(d, server, "shipper", generation, taskv1.State_STATE_RUNNING)
		return task.Waits(deferred)
	})
	return deferred
}

func TestADeferredTaskKeepsItsTimeAndLeavesItsSlotToAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, _ := w.start(Config{Concurrency: 1})
	busy, free := serverID(1), serverID(2)
	w.enrol(busy, free)
	w.say(ledger.Environment, "prod", &environmentv1.Created{
		Environment: &environmentv1.Environment{Name: "prod", BusyLimit: durationpb.New(2 * time.Hour)},
	})
	w.say(ledger.Server, busy, &serverv1.Changed{Name: "host", Environment: "prod"})
	polltest.Eventually(t, "the document has the limit", func() bool {
		return w.document(busy).GetBusyLimit().AsDuration() == 2*time.Hour
	})
	image := w.image("shipper", "1.0.0")
	w.want(busy, "shipper", 1, image)
	first := w.awaitTask(d, busy, "shipper", 1, taskv1.State_STATE_ASSIGNED)
	w.want(free, "shipper", 1, image)
	waiting := w.awaitTask(d, free, "shipper", 1, taskv1.State_STATE_QUEUED)
	w.defers(busy, first.Id, &taskv1.Deferral{
		Code: "CRITICAL_SECTION", Reason: "backup", Until: timestamppb.New(time.Now().Add(100 * time.Hour)),
	})
	w.awaitTask(d, free, "shipper", 1, taskv1.State_STATE_ASSIGNED)
	first = w.awaitDeferred(d, busy, 1)
	want := 2*time.Hour + DefaultTaskDeadline
	if got := time.Until(first.Deadline.AsTime()); (got - want).Abs() > time.Minute {
		t.Errorf("it has %s, want %s: %v", got, want, first)
	}
	polltest.Eventually(t, "the document has the new deadline", func() bool {
		e := w.document(busy).GetEntries()
		return len(e) == 1 && e[0].GetDeadline().AsTime().Equal(first.Deadline.AsTime())
	})
	w.report(free, waiting.Id, taskv1.State_STATE_SUCCEEDED, nil)
	w.defers(busy, first.Id, &taskv1.Deferral{ResumedAt: timestamppb.Now()})
	w.report(busy, first.Id, taskv1.State_STATE_SUCCEEDED, nil)
	w.awaitTask(d, busy, "shipper", 1, taskv1.State_STATE_SUCCEEDED)
	if got := w.factsOf(first.Id); got != "assigned started deferred resumed succeeded" {
		t.Errorf("the facts are %s", got)
	}
}

// Nothing was switched, so what waits is given up at once, and the next change need not wait for it.
func TestADeferredTaskThatIsNotWantedAnyMoreIsGivenUpAndCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, _ := w.start(Config{})
	server := serverID(1)
	w.enrol(server)
	one, two := w.image("shipper", "1.0.0"), w.image("shipper", "2.0.0")
	w.want(server, "shipper", 1, one)
	first := w.awaitTask(d, server, "shipper", 1, taskv1.State_STATE_ASSIGNED)
	w.report(server, first.Id, taskv1.State_STATE_SUCCEEDED, nil)
	w.awaitTask(d, server, "shipper", 1, taskv1.State_STATE_SUCCEEDED)
	w.want(server, "shipper", 2, two)
	waiting := w.awaitTask(d, server, "shipper", 2, taskv1.State_STATE_ASSIGNED)
	w.defers(server, waiting.Id, &taskv1.Deferral{Until: timestamppb.New(time.Now().Add(time.Hour))})
	w.awaitDeferred(d, server, 2)
	w.want(server, "shipper", 3, one)
	polltest.Eventually(t, "the document names the task that waits", func() bool {
		return slices.Equal(w.document(server).GetUnwantedTaskIds(), []string{waiting.Id})
	})
	w.report(server, waiting.Id, taskv1.State_STATE_UNDONE, &taskv1.Outcome{Code: code.GivenUp})
	waiting = w.awaitTask(d, server, "shipper", 2, taskv1.State_STATE_CANCELLED)
	if waiting.GetOutcome().GetCode() != code.GivenUp {
		t.Errorf("cancelled as %v", waiting)
	}
	next := w.awaitTask(d, server, "shipper", 3, taskv1.State_STATE_ASSIGNED)
	if next.From.GetId() != one.Id || next.To.GetId() != one.Id {
		t.Errorf("the next change is from %v to %v, want what it ran", next.From, next.To)
	}
	if got := w.factsOf(waiting.Id); got != "assigned started deferred cancelled" {
		t.Errorf("the facts are %s", got)
	}
	polltest.Eventually(t, "the document names it no more", func() bool {
		return len(w.document(server).GetUnwantedTaskIds()) == 0
	})
}

// Its server may be crashing with it. One that does not crash completes it.
func TestATaskThatRunsAndIsNotWantedAnyMoreIsNamedUntilItEnds(t *testing.T) {
	w := newWorld(t)
	d, _ := w.start(Config{})
	server := serverID(1)
	w.enrol(server)
	one, two := w.image("shipper", "1.0.0"), w.image("shipper", "2.0.0")
	w.want(server, "shipper", 1, one)
	running := w.awaitTask(d, server, "shipper", 1, taskv1.State_STATE_ASSIGNED)
	w.want(server, "shipper", 2, two)
	polltest.Eventually(t, "the document names the task", func() bool {
		return slices.Equal(w.document(server).GetUnwantedTaskIds(), []string{running.Id})
	})
	w.report(server, running.Id, taskv1.State_STATE_SUCCEEDED, nil)
	w.awaitTask(d, server, "shipper", 1, taskv1.State_STATE_SUCCEEDED)
	w.awaitTask(d, server, "shipper", 2, taskv1.State_STATE_ASSIGNED)
	polltest.Eventually(t, "the document names it no more", func() bool {
		return len(w.document(server).GetUnwantedTaskIds()) == 0
	})
}

// The change after it is withdrawn, so that what waits is wanted again, and its server need not give it up.
func TestADeferredTaskThatIsWantedAgainIsNotNamedAnyMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, _ := w.start(Config{})
	server := serverID(1)
	w.enrol(server)
	one, two := w.image("shipper", "1.0.0"), w.image("shipper", "2.0.0")
	w.want(server, "shipper", 1, one)
	waiting := w.awaitTask(d, server, "shipper", 1, taskv1.State_STATE_ASSIGNED)
	w.defers(server, waiting.Id, &taskv1.Deferral{Until: timestamppb.New(time.Now().Add(time.Hour))})
	w.awaitDeferred(d, server, 1)
	w.want(server, "shipper", 2, two)
	polltest.Eventually(t, "the document names the task that waits", func() bool {
		return slices.Equal(w.document(server).GetUnwantedTaskIds(), []string{waiting.Id})
	})
	next := w.awaitTask(d, server, "shipper", 2, taskv1.State_STATE_QUEUED)
	w.say(ledger.Instance, ledger.Key(server, "shipper"), &instancev1.Wanted{
		InstanceId: waiting.InstanceId, Generation: 3, Image: one, IntentId: waiting.IntentId,
		RevertedIntentId: next.IntentId,
	})
	polltest.Eventually(t, "the document names it no more", func() bool {
		return len(w.document(server).GetUnwantedTaskIds()) == 0
	})
	w.defers(server, waiting.Id, &taskv1.Deferral{ResumedAt: timestamppb.Now()})
	w.report(server, waiting.Id, taskv1.State_STATE_SUCCEEDED, nil)
	w.awaitTask(d, server, "shipper", 1, taskv1.State_STATE_SUCCEEDED)
}

func TestARefusalToCancelADeferredTaskNamesHowItEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, _ := w.start(Config{})
	server := serverID(1)
	w.enrol(server)
	w.want(server, "shipper", 1, w.image("shipper", "1.0.0"))
	waiting := w.awaitTask(d, server, "shipper", 1, taskv1.State_STATE_ASSIGNED)
	w.defers(server, waiting.Id, &taskv1.Deferral{Until: timestamppb.New(time.Now().Add(time.Hour))})
	w.awaitDeferred(d, server, 1)
	_, err := call[*dispatcherv1.CancelTaskResponse](w, "CancelTask", &dispatcherv1.CancelTaskRequest{Task: waiting.Id})
	want := "garrison cancel " + waiting.IntentId
	if have := fault.RefusalOf(err); have.GetCode() != code.NotQueued || !strings.HasPrefix(have.GetTry(), want) {
		t.Errorf("refused with %v; want %s with %q", have, code.NotQueued, want)
	}
}
