package view

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// The pending changes of an intent are exactly those in the tables.
func TestCountsOfPendingChangesAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newStory(t)
		s.view.counts.keep = 1000
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			s.step()
			checkCounts(t, s.view)
		}
	})
}

func checkCounts(t *rapid.T, v *View) {
	want := map[string]*dispatcherv1.IntentCounts{}
	of := func(intent string) *dispatcherv1.IntentCounts {
		if want[intent] == nil {
			want[intent] = &dispatcherv1.IntentCounts{}
		}
		return want[intent]
	}
	for _, i := range v.instances.table.All() {
		if intent := v.Rows.awaited(i); intent != "" {
			of(intent).ToOpen++
		}
	}
	for intent, r := range v.refreshes.table.All() {
		of(intent).ToOpen += uint32(len(r.ServerIds))
	}
	for id, r := range v.tasks.All() {
		switch r.Task.State {
		case taskv1.State_STATE_QUEUED:
			of(r.Task.IntentId).Queued++
			if p, _ := v.counts.table.Get(r.Task.IntentId); p.GetWithdrawnSequence() > 0 && !v.Queue.outdated[id] {
				t.Fatalf("task %s stays queued although its intent was withdrawn", id)
			}
		case taskv1.State_STATE_ASSIGNED:
			of(r.Task.IntentId).Assigned++
		case taskv1.State_STATE_RUNNING:
			of(r.Task.IntentId).Running++
		}
	}
	for intent, r := range v.counts.table.All() {
		have := &dispatcherv1.IntentCounts{
			ToOpen: r.Counts.ToOpen, Queued: r.Counts.Queued, Assigned: r.Counts.Assigned, Running: r.Counts.Running,
		}
		if !proto.Equal(have, of(intent)) {
			t.Fatalf("intent %s counts %v, the tables hold %v", intent, have, of(intent))
		}
		if (Pending(r.Counts) == 0) != (r.EndedSequence > 0) {
			t.Fatalf("intent %s with %v ended at %d", intent, r.Counts, r.EndedSequence)
		}
	}
}

// factory numbers facts and folds them.
type factory struct {
	view *View
	last uint64
}

func (l *factory) fold(noun ledger.Noun, key string, body proto.Message) (fits bool) {
	l.last++
	return l.view.Apply(
		ledger.Fact{Noun: noun, Key: key, Body: body, At: time.Unix(int64(l.last), 0), Sequence: l.last, Actor: "ann"})
}

// installed records that an intent wants an agent on n servers.
func installed(n int) *factory {
	l := &factory{view: New(nil)}
	for s := range n {
		id := fmt.Sprint("s", s)
		l.fold(ledger.Server, id, &serverv1.Invited{Cell: "main"})
		l.fold(ledger.Server, id, &serverv1.Enrolled{})
		l.fold(ledger.Server, id, &serverv1.Online{})
		l.fold(ledger.Instance, ledger.Key(id, "a"), &instancev1.Wanted{
			InstanceId: "x" + id, Generation: 1, Image: &imagev1.Ref{Id: "i1"}, IntentId: "n1",
		})
	}
	l.fold(ledger.Intent, "n1", &intentv1.Accepted{Intent: &intentv1.Intent{}, Changed: uint32(n)})
	return l
}

func (l *factory) open(n int) {
	for _, o := range l.view.Queue.Openings(n) {
		l.fold(ledger.Task, o.ID, o.Body)
	}
}

func (l *factory) admit(n int, end proto.Message) {
	for _, a := range l.view.Queue.Admissions(time.Time{}, n, n) {
		l.fold(ledger.Task, a.ID, &taskv1.Assigned{Opened: a.Opened})
		if end != nil {
			l.fold(ledger.Task, a.ID, end)
		}
	}
}

func (l *factory) counts(intent string) *dispatcherv1.IntentCounts {
	r, _ := l.view.counts.table.Get(intent)
	return r.GetCounts()
}

func (l *factory) want(t *testing.T, intent string, want *dispatcherv1.IntentCounts) {
	t.Helper()
	if have := l.counts(intent); !proto.Equal(have, want) {
		t.Errorf("counts are %v, want %v", have, want)
	}
}

func TestCountsAreCompleteWhenMoreTasksEndedThanAreKept(t *testing.T) {
	l := installed(30)
	l.view.ended.keep = 5
	l.open(30)
	l.admit(30, &taskv1.Succeeded{})
	l.want(t, "n1", &dispatcherv1.IntentCounts{Succeeded: 30})
	if r, _ := l.view.counts.table.Get("n1"); r.EndedSequence == 0 {
		t.Error("the intent has not ended")
	}
}

func TestAChangeThatIsReplacedBeforeItsTaskWasOpenedIsCounted(t *testing.T) {
	l := installed(3)
	l.open(1)
	l.fold(ledger.Instance, ledger.Key("s1", "a"), &instancev1.Wanted{
		InstanceId: "xs1", Generation: 2, Image: &imagev1.Ref{Id: "i2"}, IntentId: "n2",
	})
	l.fold(ledger.Server, "s2", &serverv1.Dying{})
	l.want(t, "n1", &dispatcherv1.IntentCounts{Queued: 1, NeverOpened: 2})
	l.want(t, "n2", &dispatcherv1.IntentCounts{ToOpen: 1})
}

func TestAnotherAttemptReplacesTheExpiredOne(t *testing.T) {
	l := installed(1)
	l.open(1)
	l.admit(1, &taskv1.Expired{})
	l.want(t, "n1", &dispatcherv1.IntentCounts{Expired: 1})
	l.fold(ledger.Server, "s0", &serverv1.Offline{})
	l.fold(ledger.Server, "s0", &serverv1.Online{})
	l.open(1)
	l.want(t, "n1", &dispatcherv1.IntentCounts{Queued: 1})
}

func TestAWithdrawnIntentEndsQueuedTasksAndLetsTheOthersRun(t *testing.T) {
	l := installed(3)
	l.open(2)
	l.admit(1, nil)
	l.fold(ledger.Intent, "n1", &intentv1.Withdrawn{})
	l.open(3)
	if left := l.view.Queue.Admissions(time.Time{}, 10, 10); len(left) > 0 {
		t.Errorf("%d tasks may still be admitted", len(left))
	}
	for _, e := range l.view.Queue.Outdated(10) {
		l.fold(ledger.Task, e.ID, e.Body)
	}
	l.want(t, "n1", &dispatcherv1.IntentCounts{Assigned: 1, Cancelled: 2})
}

func TestProgressCountsEveryDeferredChangeHoweverFewItNames(t *testing.T) {
	l := installed(8)
	l.open(8)
	for _, a := range l.view.Queue.Admissions(time.Time{}, 6, 6) {
		l.fold(ledger.Task, a.ID, &taskv1.Assigned{Opened: a.Opened})
		l.fold(ledger.Task, a.ID, &taskv1.Started{})
		l.fold(ledger.Task, a.ID, &taskv1.Deferred{})
	}
	for _, id := range l.view.Rows.inState("n1", taskv1.State_STATE_RUNNING)[:2] {
		l.fold(ledger.Task, id, &taskv1.Resumed{})
	}
	if p, _ := l.view.Listing.Progress("n1", 1); p.Deferred != 4 {
		t.Errorf("%d changes are deferred, want 4", p.Deferred)
	}
}
