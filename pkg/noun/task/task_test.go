package task_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/task"
)

func fact(body proto.Message) ledger.Fact {
	return ledger.Fact{Noun: ledger.Task, Key: "t", Body: body, At: time.Unix(9, 0)}
}

func record(s taskv1.State) *taskv1.Task {
	if s == taskv1.State_STATE_UNSPECIFIED {
		return nil
	}
	return &taskv1.Task{Id: "t", State: s, Deadline: timestamppb.New(time.Unix(8, 0))}
}

func TestEveryReachableStateHasARow(t *testing.T) {
	if err := task.Life.Check(); err != nil {
		t.Fatal(err)
	}
}

func TestLifeHasExactlyTheseTransitions(t *testing.T) {
	want := map[task.State]string{
		task.Unknown: "assigned queued", task.Queued: "assigned cancelled expired superseded",
		task.Assigned: "expired failed started succeeded undone",
		task.Running:  "cancelled deferred expired failed resumed succeeded undone",
		task.Expired:  "reported-late", task.Succeeded: "", task.Failed: "", task.Undone: "", task.Cancelled: "",
		task.Superseded: "",
	}
	for _, s := range task.Life.States() {
		var can []string
		for _, f := range task.Life.Facts() {
			next, ok := task.Life.Next(s, f)
			if !ok {
				continue
			}
			can = append(can, f)
			if state := map[string]task.State{
				"started": task.Running, "reported-late": task.Expired,
				"deferred": task.Running, "resumed": task.Running,
			}[f]; state != "" {
				f = string(state)
			}
			if string(next) != f {
				t.Errorf("%s after %s: %s", s, f, next)
			}
		}
		if got := strings.Join(can, " "); got != want[s] {
			t.Errorf("facts that fit a task that is %s: %q, want %q", s, got, want[s])
		}
		if s != task.Unknown && task.Ended(s.Proto()) != (want[s] == "" || s == task.Expired) {
			t.Errorf("%s is an end: %v", s, task.Ended(s.Proto()))
		}
	}
}

func TestEveryFactInEveryStateMovesAsLifeDefinesOrChangesNothing(t *testing.T) {
	for n := range taskv1.State_name {
		s := taskv1.State(n)
		for _, k := range ledger.Kinds {
			if k.Noun != ledger.Task {
				continue
			}
			before, body := record(s), proto.Clone(k.Body)
			if a, ok := body.(*taskv1.Assigned); ok {
				a.Opened = &taskv1.Queued{}
			}
			next, want := task.Life.Next(task.StateOf(s), k.Name)
			after, fit := task.Apply(proto.CloneOf(before), fact(body))
			switch {
			case fit != want || fit != task.Fits(before, fact(body)):
				t.Errorf("%s after %s: fit %v, want %v", s, k.Name, fit, want)
			case !fit && !proto.Equal(before, after):
				t.Errorf("%s after %s: did not fit and changed", s, k.Name)
			case fit && after.State != next.Proto():
				t.Errorf("%s after %s: %s, want %s", s, k.Name, after.State, next)
			}
		}
	}
}

func TestATaskThatDoesNotWaitIsWhatItWouldBeAfterAWait(t *testing.T) {
	what := &taskv1.Queued{
		Verb: taskv1.Verb_VERB_UPGRADE, ServerId: "s", Agent: "a", InstanceId: "i", Generation: 2, Attempt: 1,
		IntentId: "n",
	}
	until := timestamppb.New(time.Unix(99, 0))
	want, _ := task.Apply(nil, fact(proto.Clone(what)))
	want, _ = task.Apply(want, fact(&taskv1.Assigned{Deadline: until}))
	have, fit := task.Apply(nil, fact(&taskv1.Assigned{Deadline: until, Opened: what}))
	if !fit || !proto.Equal(have, want) {
		t.Errorf("assigned at once: %v, after a wait: %v", have, want)
	}
	if have, fit := task.Apply(nil, fact(&taskv1.Assigned{Deadline: until})); fit {
		t.Errorf("an unknown task was assigned, and nothing says what it is: %v", have)
	}
}

func TestEveryStateOfTheContractIsInTheTable(t *testing.T) {
	for n := range taskv1.State_name {
		s := taskv1.State(n)
		if _, ok := task.Life[task.StateOf(s)]; !ok || task.StateOf(s).Proto() != s {
			t.Errorf("%v becomes %q", s, task.StateOf(s))
		}
	}
}

func TestALateReportCompletesTheRecordOnceAndLeavesTheTaskExpired(t *testing.T) {
	r, _ := task.Apply(record(taskv1.State_STATE_RUNNING), fact(&taskv1.Expired{}))
	late := fact(&taskv1.ReportedLate{State: taskv1.State_STATE_UNDONE, Outcome: &taskv1.Outcome{Code: "NOT_READY"}})
	r, fit := task.Apply(r, late)
	want := "its deadline passed while it was running; its server said later that it was undone"
	if !fit || r.State != taskv1.State_STATE_EXPIRED || r.Reason != want || r.Outcome.Code != "NOT_READY" {
		t.Errorf("fit %v, %s, %q", fit, r.State, r.Reason)
	}
	if _, again := task.Apply(r, late); again {
		t.Error("a second late report fits")
	}
}

func TestATaskHasADeadlineUntilItEnds(t *testing.T) {
	until := timestamppb.New(time.Unix(100, 0))
	r, _ := task.Apply(nil, fact(&taskv1.Queued{Deadline: until}))
	if !proto.Equal(r.Deadline, until) {
		t.Errorf("deadline %v, want %v", r.Deadline, until)
	}
	longer := timestamppb.New(time.Unix(200, 0))
	if r, _ = task.Apply(r, fact(&taskv1.Assigned{Deadline: longer})); !proto.Equal(r.Deadline, longer) {
		t.Errorf("deadline %v, want %v", r.Deadline, longer)
	}
	if r, _ = task.Apply(r, fact(&taskv1.Succeeded{})); r.Deadline != nil {
		t.Errorf("deadline %v at the end, want none", r.Deadline)
	}
}

func TestADeferredTaskWaitsUntilItGoesOnAndKeepsWhyItWaited(t *testing.T) {
	until, deadline := timestamppb.New(time.Unix(100, 0)), timestamppb.New(time.Unix(200, 0))
	r, fit := task.Apply(record(taskv1.State_STATE_RUNNING), fact(&taskv1.Deferred{
		Deferral: &taskv1.Deferral{Code: "CRITICAL_SECTION", Reason: "backup", Until: until}, Deadline: deadline,
	}))
	want := "CRITICAL_SECTION: backup; it goes on by 1970-01-01T00:01:40Z at the latest"
	if !fit || !task.Waits(r) || r.Reason != want || !proto.Equal(r.Deadline, deadline) ||
		r.Deferral.Since.AsTime().Unix() != 9 {
		t.Errorf("deferred: fit %v, %v", fit, r)
	}
	later := timestamppb.New(time.Unix(300, 0))
	r, fit = task.Apply(r, fact(&taskv1.Resumed{Overrun: true, Deadline: later}))
	if !fit || task.Waits(r) || r.Reason != "it went on at its limit, during backup" ||
		!proto.Equal(r.Deadline, later) || r.State != taskv1.State_STATE_RUNNING {
		t.Errorf("resumed: fit %v, %v", fit, r)
	}
	r, _ = task.Apply(r, fact(&taskv1.Succeeded{}))
	if r.Reason != "" || r.Deferral.GetReason() != "backup" {
		t.Errorf("ended: %v", r)
	}
}
