package view

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/usual"
)

func TestATaskThatItsServerHasNotBegunTakesNoSlotWhileTheServerIsOffline(t *testing.T) {
	const limit = 2
	l := installed(6)
	l.open(6)
	admitted := l.view.Queue.Admissions(time.Time{}, limit, 10)
	for _, a := range admitted {
		l.fold(ledger.Task, a.ID, &taskv1.Assigned{Opened: a.Opened})
	}
	l.fold(ledger.Task, admitted[1].ID, &taskv1.Started{})
	l.presence(admitted, &serverv1.Offline{})
	if n := len(l.view.Queue.Admissions(time.Time{}, limit, 10)); n != 1 {
		t.Errorf("%d more are admitted; want 1 in the slot of the one that was not begun", n)
	}
	l.presence(admitted, &serverv1.Online{})
	if n := len(l.view.Queue.Admissions(time.Time{}, limit, 10)); n != 0 {
		t.Errorf("%d more are admitted although both servers are back", n)
	}
}

// presence folds a fact about the presence of the servers of tasks.
func (l *factory) presence(of []Admission, body proto.Message) {
	for _, a := range of {
		task, _, _ := l.view.Rows.Task(a.ID)
		l.fold(ledger.Server, task.ServerId, body)
	}
}

func TestEveryOpenTaskOfAServerThatIsOfflineNamesIt(t *testing.T) {
	l := installed(3)
	l.open(3)
	tasks := l.view.Queue.Admissions(time.Time{}, 3, 3)
	l.fold(ledger.Task, tasks[0].ID, &taskv1.Assigned{})
	l.fold(ledger.Task, tasks[1].ID, &taskv1.Assigned{})
	l.fold(ledger.Task, tasks[1].ID, &taskv1.Started{})
	l.fold(ledger.Task, tasks[1].ID, &taskv1.Deferred{Deferral: &taskv1.Deferral{Code: "BUSY", Reason: "a backup"}})
	l.presence(tasks, &serverv1.Offline{})
	for n, more := range []string{"", "; BUSY: a backup; it goes on by 1970-01-01T00:00:00Z at the latest", ""} {
		r, _ := l.view.tasks.Get(tasks[n].ID)
		since := l.view.Rows.OfflineSince(r.Task.ServerId)
		want := "server offline since " + since.AsTime().Format("2006-01-02T15:04:05Z") + more
		if have := l.view.Listing.Explained(r); have.Reason != want || !proto.Equal(have.ServerOfflineSince, since) {
			t.Errorf("a task that is %s: %q; want %q", r.Task.State, have.Reason, want)
		}
	}
	p, _ := l.view.Listing.Progress("n1", 1)
	if p.Away != 2 || len(p.Offline) != 1 || p.Offline[0].ServerOfflineSince == nil {
		t.Errorf("%d wait for their servers, %d are listed; want the one that is queued and the one that is assigned",
			p.Away, len(p.Offline))
	}
	l.presence(tasks, &serverv1.Online{})
	r, _ := l.view.tasks.Get(tasks[0].ID)
	if have := l.view.Listing.Explained(r); have.Reason != "" || have.ServerOfflineSince != nil {
		t.Errorf("once its server is back: %v", have)
	}
}

// refresh opens and assigns a refresh of every server, and returns how long each may take.
func (l *factory) refresh(intent string, q *intentv1.Refresh, servers ...string) []Admission {
	l.fold(ledger.Intent, intent, &intentv1.Accepted{
		Intent:    &intentv1.Intent{Ask: &intentv1.Intent_Refresh{Refresh: q}},
		ServerIds: servers, Changed: uint32(len(servers)),
	})
	l.open(len(servers))
	tasks := l.view.Queue.Admissions(time.Time{}, 100, 100)
	l.view.Durations.SetWithin(tasks, someBounds)
	return tasks
}

func TestTheDeadlinesOfRefreshesAreLearntByWhatTheyAskFor(t *testing.T) {
	l := installed(usual.Enough)
	l.open(usual.Enough)
	l.admit(usual.Enough, &taskv1.Succeeded{})
	var servers []string
	for id := range l.view.servers.All() {
		servers = append(servers, id)
	}
	for _, a := range l.refresh("r1", &intentv1.Refresh{}, servers...) {
		if a.Within != someBounds.Unknown {
			t.Fatalf("the first refreshes have %s", a.Within)
		}
		l.taken(a.ID)
	}
	second := l.refresh("r2", &intentv1.Refresh{}, "s0", "s1")
	if second[0].Within != someBounds.Least {
		t.Errorf("after %d refreshes the next one has %s; want %s", usual.Enough, second[0].Within, someBounds.Least)
	}
	l.taken(second[0].ID, &taskv1.Expired{})
	l.taken(second[1].ID)
	purges := l.refresh("r3", &intentv1.Refresh{PurgeKept: true}, "s0")
	if purges[0].Within != someBounds.Unknown {
		t.Errorf("a purge has %s, although only reports are known", purges[0].Within)
	}
	l.taken(purges[0].ID)
	for n, a := range l.refresh("r4", &intentv1.Refresh{}, "s0", "s1") {
		if late := n == 0; late != (a.Within == someBounds.Unknown) {
			t.Errorf("server %d has %s after its last refresh", n, a.Within)
		}
	}
}
