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

// What is to come of an intent is exactly what the tables hold of it, whatever happens.
func TestCountsOfWhatIsToComeAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newStory(t)
		s.view.keepIntents = 1000
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
	for _, i := range v.instances.All() {
		if intent := v.awaited(i); intent != "" {
			of(intent).ToOpen++
		}
	}
	for intent, r := range v.refreshes.All() {
		of(intent).ToOpen += uint32(len(r.ServerIds))
	}
	for id, r := range v.tasks.All() {
		switch r.Task.State {
		case taskv1.State_STATE_QUEUED:
			of(r.Task.IntentId).Queued++
			if p, _ := v.progress.Get(r.Task.IntentId); p.GetWithdrawnSequence() > 0 && !v.stale[id] {
				t.Fatalf("task %s stays queued although its intent was withdrawn", id)
			}
		case taskv1.State_STATE_ASSIGNED:
			of(r.Task.IntentId).Assigned++
		case taskv1.State_STATE_RUNNING:
			of(r.Task.IntentId).Running++
		}
	}
	for intent, r := range v.progress.All() {
		have := &dispatcherv1.IntentCounts{
			ToOpen: r.Counts.ToOpen, Queued: r.Counts.Queued, Assigned: r.Counts.Assigned, Running: r.Counts.Running,
		}
		if !proto.Equal(have, of(intent)) {
			t.Fatalf("intent %s counts %v, the tables hold %v", intent, have, of(intent))
		}
		if (ToCome(r.Counts) == 0) != (r.EndedSequence > 0) {
			t.Fatalf("intent %s with %v ended at %d", intent, r.Counts, r.EndedSequence)
		}
	}
}

// teller folds facts in order.
type teller struct {
	view *View
	last uint64
}

func (l *teller) tell(noun ledger.Noun, key string, body proto.Message) {
	l.last++
	l.view.Apply(ledger.Fact{Noun: noun, Key: key, Body: body, At: time.Unix(int64(l.last), 0), Sequence: l.last, Actor: "ann"})
}

// installed wants an agent on n servers for one intent.
func installed(n int) *teller {
	l := &teller{view: New(nil)}
	for s := range n {
		id := fmt.Sprint("s", s)
		l.tell(ledger.Server, id, &serverv1.Invited{Cell: "main"})
		l.tell(ledger.Server, id, &serverv1.Enrolled{})
		l.tell(ledger.Server, id, &serverv1.Online{})
		l.tell(ledger.Instance, ledger.Key(id, "a"), &instancev1.Wanted{
			InstanceId: "x" + id, Generation: 1, Image: &imagev1.Ref{Id: "i1"}, IntentId: "n1",
		})
	}
	l.tell(ledger.Intent, "n1", &intentv1.Accepted{Intent: &intentv1.Intent{}, Changed: uint32(n)})
	return l
}

func (l *teller) open(n int) {
	for _, o := range l.view.Openings(n) {
		l.tell(ledger.Task, o.ID, o.Body)
	}
}

func (l *teller) admit(n int, end proto.Message) {
	for _, a := range l.view.Admissions(n, n) {
		l.tell(ledger.Task, a.ID, &taskv1.Assigned{})
		if end != nil {
			l.tell(ledger.Task, a.ID, end)
		}
	}
}

func (l *teller) counts(intent string) *dispatcherv1.IntentCounts {
	r, _ := l.view.progress.Get(intent)
	return r.GetCounts()
}

func (l *teller) want(t *testing.T, intent string, want *dispatcherv1.IntentCounts) {
	t.Helper()
	if have := l.counts(intent); !proto.Equal(have, want) {
		t.Errorf("counts are %v, want %v", have, want)
	}
}

func TestCountsAreCompleteWhenMoreTasksEndedThanAreKept(t *testing.T) {
	l := installed(30)
	l.view.keepEnded = 5
	l.open(30)
	l.admit(30, &taskv1.Succeeded{})
	l.want(t, "n1", &dispatcherv1.IntentCounts{Succeeded: 30})
	if r, _ := l.view.progress.Get("n1"); r.EndedSequence == 0 {
		t.Error("the intent is not through")
	}
}

func TestAChangeThatIsReplacedBeforeItsTaskWasOpenedIsCounted(t *testing.T) {
	l := installed(3)
	l.open(1)
	l.tell(ledger.Instance, ledger.Key("s1", "a"), &instancev1.Wanted{
		InstanceId: "xs1", Generation: 2, Image: &imagev1.Ref{Id: "i2"}, IntentId: "n2",
	})
	l.tell(ledger.Server, "s2", &serverv1.Dying{})
	l.want(t, "n1", &dispatcherv1.IntentCounts{Queued: 1, NeverOpened: 2})
	l.want(t, "n2", &dispatcherv1.IntentCounts{ToOpen: 1})
}

func TestAnotherTryTakesThePlaceOfTheOneThatExpired(t *testing.T) {
	l := installed(1)
	l.open(1)
	l.admit(1, &taskv1.Expired{})
	l.want(t, "n1", &dispatcherv1.IntentCounts{Expired: 1})
	l.tell(ledger.Server, "s0", &serverv1.Offline{})
	l.tell(ledger.Server, "s0", &serverv1.Online{})
	l.open(1)
	l.want(t, "n1", &dispatcherv1.IntentCounts{Queued: 1})
}

func TestAWithdrawnIntentEndsWhatIsQueuedOrOpenedAndLetsTheRestRun(t *testing.T) {
	l := installed(3)
	l.open(2)
	l.admit(1, nil)
	l.tell(ledger.Intent, "n1", &intentv1.Withdrawn{})
	l.open(3)
	if left := l.view.Admissions(10, 10); len(left) > 0 {
		t.Errorf("%d tasks may still go", len(left))
	}
	for _, e := range l.view.Outdated(10) {
		l.tell(ledger.Task, e.ID, e.Body)
	}
	l.want(t, "n1", &dispatcherv1.IntentCounts{Assigned: 1, Cancelled: 2})
}
