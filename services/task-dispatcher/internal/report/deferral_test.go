package report

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// waits decides about a report that a change waits for a while, or goes on, by a clock that is a day behind the bus's.
func waits(t *testing.T, now *taskv1.Task, d *taskv1.Deferral) (names string, last any) {
	t.Helper()
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	r := &reportv1.Report{ServerId: "s", At: timestamppb.New(at.Add(-24 * time.Hour)), Body: &reportv1.Report_Task{
		Task: &reportv1.TaskReport{TaskId: "t", State: taskv1.State_STATE_RUNNING, Deferral: d},
	}}
	now.Id, now.ServerId = "t", "s"
	facts, err := Decide(now, enrolled, r, Deferrable{Now: at, Busy: time.Hour, UnderWay: 15 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range facts {
		names, last = names+" "+ledger.Fact{Body: body}.Name(), body
	}
	return names, last
}

func TestAChangeWaitsOnceAndNoLongerThanItsEnvironmentAllows(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for said, want := range map[time.Duration]time.Duration{
		10 * time.Minute: 10 * time.Minute, 100 * time.Hour: time.Hour, -time.Hour: 0,
	} {
		_, last := waits(t, &taskv1.Task{State: taskv1.State_STATE_RUNNING},
			&taskv1.Deferral{Code: "C", Reason: "why", Until: timestamppb.New(noon.Add(said - 24*time.Hour))})
		d := last.(*taskv1.Deferred)
		if got := d.Deferral.Until.AsTime(); !got.Equal(noon.Add(want)) || d.Deferral.Reason != "why" ||
			!d.Deadline.AsTime().Equal(noon.Add(want+15*time.Minute)) {
			t.Errorf("for %s: %v", said, d)
		}
	}
	wait, goesOn := &taskv1.Deferral{}, &taskv1.Deferral{ResumedAt: timestamppb.New(noon), Overrun: true}
	for _, c := range []struct {
		now  *taskv1.Task
		said *taskv1.Deferral
		want string
	}{
		{&taskv1.Task{State: taskv1.State_STATE_ASSIGNED}, wait, " started deferred"},
		{&taskv1.Task{State: taskv1.State_STATE_RUNNING}, wait, " deferred"},
		{&taskv1.Task{State: taskv1.State_STATE_RUNNING, Deferral: wait}, wait, ""},
		{&taskv1.Task{State: taskv1.State_STATE_RUNNING, Deferral: goesOn}, wait, ""},
		{&taskv1.Task{State: taskv1.State_STATE_RUNNING, Deferral: wait}, goesOn, " resumed"},
		{&taskv1.Task{State: taskv1.State_STATE_RUNNING, Deferral: goesOn}, goesOn, ""},
		{&taskv1.Task{State: taskv1.State_STATE_RUNNING}, goesOn, ""},
		{&taskv1.Task{State: taskv1.State_STATE_EXPIRED}, wait, ""},
	} {
		if got, _ := waits(t, c.now, c.said); got != c.want {
			t.Errorf("%v after %v: facts%s, want%s", c.said, c.now, got, c.want)
		}
	}
}

func TestOnlyAChangeThatIsNotWantedAnyMoreIsGivenUp(t *testing.T) {
	unwanted := &taskv1.Cancelled{Code: code.GivenUp, Reason: "another change was asked for"}
	running := &taskv1.Task{Id: "t", ServerId: "s", State: taskv1.State_STATE_RUNNING}
	r := &reportv1.Report{ServerId: "s", Body: &reportv1.Report_Task{Task: &reportv1.TaskReport{
		TaskId: "t", State: taskv1.State_STATE_UNDONE, Outcome: &taskv1.Outcome{Code: code.GivenUp},
	}}}
	assigned := proto.CloneOf(running)
	assigned.State = taskv1.State_STATE_ASSIGNED
	for name, c := range map[string]struct {
		now      *taskv1.Task
		deferral *taskv1.Deferral
		unwanted *taskv1.Cancelled
		want     string
	}{
		"it waits":                       {running, &taskv1.Deferral{}, unwanted, " cancelled"},
		"its wait was not reported":      {running, nil, unwanted, " cancelled"},
		"its start was not reported":     {assigned, nil, unwanted, " started cancelled"},
		"it waits and is wanted":         {running, &taskv1.Deferral{}, nil, " again"},
		"it never waited, and is wanted": {running, nil, nil, " undone"},
	} {
		now := proto.CloneOf(c.now)
		now.Deferral = c.deferral
		facts, err := Decide(now, enrolled, r, Deferrable{Unwanted: c.unwanted})
		got := ""
		for _, f := range facts {
			got += " " + ledger.Fact{Body: f}.Name()
		}
		if fault.Is(err, fault.NotFound) {
			got = " again"
		}
		if got != c.want {
			t.Errorf("%s: facts%s, want%s: %v", name, got, c.want, err)
		}
	}
}
