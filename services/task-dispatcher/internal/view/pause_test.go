package view

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

func TestAPauseOfTheSiteHoldsQueuedTasksBackUntilItsEnd(t *testing.T) {
	l := installed(3)
	began := time.Unix(0, 0)
	for _, o := range l.view.Queue.Openings(3) {
		o.Body.Deadline = timestamppb.New(began.Add(24 * time.Hour))
		l.fold(ledger.Task, o.ID, o.Body)
	}
	until := began.Add(48 * time.Hour)
	l.fold(ledger.Hold, "another", &holdv1.Hold{Agent: "web"})
	if n := len(l.view.Queue.Admissions(began, 10, 10)); n != 3 {
		t.Fatalf("%d tasks are admitted beside a hold of one agent, want 3", n)
	}
	id := l.view.Queue.Admissions(began, 1, 1)[0].ID
	l.last++
	l.view.Apply(ledger.Fact{
		Noun: ledger.Hold, Key: pauseKey, Body: &holdv1.Hold{Until: timestamppb.New(until)}, Sequence: l.last,
		At: time.Unix(int64(l.last), 0), Actor: "ann", Note: "a move",
	})
	if n := len(l.view.Queue.Admissions(began, 10, 10)); n != 0 {
		t.Errorf("%d tasks are admitted in the pause", n)
	}
	r, _ := l.view.tasks.Get(id)
	why := l.view.Listing.Explained(r).Reason
	if !strings.Contains(why, "ann paused the site") || !strings.Contains(why, "a move") {
		t.Errorf("it waits because %q", why)
	}
	for at, want := range map[time.Time]int{until: 0, until.Add(afterPause): 3} {
		if n := len(l.view.Queue.Overdue(at, 10)); n != want {
			t.Errorf("%d tasks are overdue %s after the pause, want %d", n, at.Sub(until), want)
		}
	}
	if n := len(l.view.Queue.Admissions(until, 10, 10)); n != 3 {
		t.Errorf("%d tasks are admitted at its end, want 3", n)
	}
	l.fold(ledger.Hold, pauseKey, &holdv1.Unset{})
	if n := len(l.view.Queue.Admissions(began.Add(time.Hour), 10, 10)); n != 3 {
		t.Errorf("%d tasks are admitted once it was ended, want 3", n)
	}
}

func TestATaskUnderWayEndsInAPause(t *testing.T) {
	l := installed(1)
	l.open(1)
	task := l.view.Queue.Admissions(time.Time{}, 1, 1)[0]
	l.fold(ledger.Task, task.ID, &taskv1.Assigned{Deadline: timestamppb.New(time.Unix(10, 0))})
	l.fold(ledger.Hold, pauseKey, &holdv1.Hold{Until: timestamppb.New(time.Unix(1e6, 0))})
	if n := len(l.view.Queue.Overdue(time.Unix(100, 0), 10)); n != 1 {
		t.Errorf("%d tasks are overdue, want the one that its server has", n)
	}
}
