package report

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/task"
)

var enrolled = &dispatcherv1.ServerRecord{
	Life: serverv1.Life_LIFE_ALIVE, Standing: serverv1.Standing_STANDING_ENROLLED,
}

// reported decides about a report of an enrolled server on its task.
func reported(now, said task.State, o *taskv1.Outcome) ([]proto.Message, error) {
	r := &reportv1.Report{ServerId: "s", BootId: "boot", Body: &reportv1.Report_Task{
		Task: &reportv1.TaskReport{TaskId: "t", State: said.Proto(), Outcome: o},
	}}
	return Decide(&taskv1.Task{Id: "t", ServerId: "s", State: now.Proto()}, enrolled, r, Deferrable{})
}

func TestAReportBecomesAFactOrRepeatsOrIsNotBelieved(t *testing.T) {
	cases := []struct {
		name string
		now  task.State
		said task.State
		fact string
		kind fault.Kind
	}{
		{"the executor began", task.Assigned, task.Running, "started", 0},
		{"the executor repeats that it began", task.Running, task.Running, "", 0},
		{"it succeeded without a start", task.Assigned, task.Succeeded, "succeeded", 0},
		{"it failed without a start", task.Assigned, task.Failed, "failed", 0},
		{"it was undone without a start", task.Assigned, task.Undone, "undone", 0},
		{"it succeeded", task.Running, task.Succeeded, "succeeded", 0},
		{"it failed", task.Running, task.Failed, "failed", 0},
		{"it was undone", task.Running, task.Undone, "undone", 0},
		{"it expired before", task.Expired, task.Succeeded, "reported-late", 0},
		{"it expired before and runs", task.Expired, task.Running, "", 0},
		{"it ended before", task.Failed, task.Succeeded, "", 0},
		{"it was never assigned", task.Queued, task.Running, "", fault.Invalid},
		{"a server cannot cancel", task.Running, task.Cancelled, "", fault.Invalid},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			facts, err := reported(c.now, c.said, nil)
			if (err != nil) != (c.kind != 0) || err != nil && !fault.Is(err, c.kind) {
				t.Fatalf("error %v, want kind %v", err, c.kind)
			}
			var names []string
			for _, body := range facts {
				names = append(names, ledger.Fact{Body: body}.Name())
				if s, ok := body.(*taskv1.Started); ok && s.BootId != "boot" {
					t.Errorf("it started in boot %q", s.BootId)
				}
			}
			if got := strings.Join(names, " "); got != c.fact {
				t.Errorf("the facts are %q, want %q", got, c.fact)
			}
		})
	}
}

func TestOnlyTheEnrolledServerOfATaskIsBelieved(t *testing.T) {
	running := &taskv1.Task{Id: "t", ServerId: "s", State: taskv1.State_STATE_RUNNING}
	dead := &dispatcherv1.ServerRecord{Life: serverv1.Life_LIFE_DEAD}
	quarantined := &dispatcherv1.ServerRecord{Standing: serverv1.Standing_STANDING_QUARANTINED}
	for name, c := range map[string]struct {
		task    *taskv1.Task
		server  *dispatcherv1.ServerRecord
		from    string
		ignored bool
	}{
		"an unknown task":       {nil, enrolled, "s", true},
		"a task of another one": {running, enrolled, "other", false},
		"a dead server":         {running, dead, "s", true},
		"a quarantined server":  {running, quarantined, "s", false},
	} {
		r := &reportv1.Report{ServerId: c.from, Body: &reportv1.Report_Task{
			Task: &reportv1.TaskReport{TaskId: "t", State: taskv1.State_STATE_SUCCEEDED},
		}}
		facts, err := Decide(c.task, c.server, r, Deferrable{})
		if len(facts) > 0 || errors.Is(err, ErrIgnored) != c.ignored || fault.Is(err, fault.Invalid) == c.ignored {
			t.Errorf("%s: %v, %v", name, facts, err)
		}
	}
}

func TestAnEndShowsWhatTheServerFoundAndWhenItReportedThat(t *testing.T) {
	to, at := &imagev1.Ref{Id: "image"}, timestamppb.New(time.Unix(7, 0))
	kept := func(n int) (out []*imagev1.Kept) {
		for range n {
			out = append(out, &imagev1.Kept{Image: to})
		}
		return out
	}
	for name, c := range map[string]struct {
		to   *imagev1.Ref
		said *taskv1.Shown
		want *taskv1.Shown
		kind fault.Kind
	}{
		"a change": {
			to, &taskv1.Shown{ConfigurationDigest: []byte{1}, Kept: kept(8), Report: 9},
			&taskv1.Shown{ConfigurationDigest: []byte{1}, Kept: kept(8), Report: 5, At: at}, 0,
		},
		"a removal":          {nil, &taskv1.Shown{}, nil, 0},
		"a list is reported": {to, nil, nil, 0},
		"too many":           {to, &taskv1.Shown{Kept: kept(9)}, nil, fault.Invalid},
	} {
		facts, err := Decide(
			&taskv1.Task{Id: "t", ServerId: "s", State: taskv1.State_STATE_ASSIGNED, To: c.to}, enrolled,
			&reportv1.Report{ServerId: "s", Sequence: 5, At: at, Body: &reportv1.Report_Task{
				Task: &reportv1.TaskReport{
					TaskId: "t", State: taskv1.State_STATE_SUCCEEDED, Outcome: &taskv1.Outcome{Shown: c.said},
				},
			}}, Deferrable{})
		if c.kind != 0 {
			if !fault.Is(err, c.kind) {
				t.Errorf("%s: %v, want kind %v", name, err, c.kind)
			}
			continue
		}
		if err != nil || len(facts) != 1 {
			t.Fatalf("%s: %v, %v", name, facts, err)
		}
		if diff := cmp.Diff(c.want, facts[0].(*taskv1.Succeeded).Outcome.Shown, protocmp.Transform()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestAnOutcomeIsCutToTheBoundsOfAFact(t *testing.T) {
	long := strings.Repeat("ä", 5000)
	facts, err := reported(task.Running, task.Failed, &taskv1.Outcome{
		Code: long, Reason: long, LogTail: long + "the end", Steps: make([]*taskv1.StepTime, 100),
	})
	if err != nil {
		t.Fatal(err)
	}
	o := facts[0].(*taskv1.Failed).Outcome
	if len(o.Code) > MaxCode || len(o.Reason) > MaxReason || len(o.LogTail) > MaxLogTail || len(o.Steps) > MaxSteps {
		t.Errorf("sizes %d %d %d %d", len(o.Code), len(o.Reason), len(o.LogTail), len(o.Steps))
	}
	if !strings.HasSuffix(o.LogTail, "the end") || !strings.HasPrefix(o.Reason, "ä") ||
		strings.ContainsRune(o.Reason+o.LogTail+o.Code, '\uFFFD') {
		t.Errorf("the reason is %.20q…", o.Reason)
	}
}
