package dispatcher

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
)

// queuedWorld returns a world in which ten tasks of two agents are queued, and one is under way.
func queuedWorld(t *testing.T) (*world, *Dispatcher, []string) {
	w := newWorld(t)
	d, _ := w.start(Config{Concurrency: 1})
	all := servers(5)
	w.enrol(all...)
	img := w.image("any", "1.0.0")
	for _, s := range all {
		w.want(s, "a", 1, img)
		w.want(s, "b", 1, img)
	}
	polltest.Eventually(t, "ten tasks, one of them assigned", func() bool {
		var assigned int
		for _, s := range all {
			for _, x := range w.tasks(d, s) {
				if x.State == taskv1.State_STATE_ASSIGNED {
					assigned++
				}
			}
		}
		r, err := call[*dispatcherv1.ListTasksResponse](w, "ListTasks", &dispatcherv1.ListTasksRequest{})
		return err == nil && len(r.Tasks) == 10 && assigned == 1
	})
	return w, d, all
}

func TestTasksAreListedPageByPageNewestFirst(t *testing.T) {
	t.Parallel()
	w, _, all := queuedWorld(t)
	queries := map[string]struct {
		q    *dispatcherv1.ListTasksRequest
		want int
	}{
		"all":          {&dispatcherv1.ListTasksRequest{}, 10},
		"of an agent":  {&dispatcherv1.ListTasksRequest{Agent: "b"}, 5},
		"on a server":  {&dispatcherv1.ListTasksRequest{ServerId: all[0]}, 2},
		"of both":      {&dispatcherv1.ListTasksRequest{ServerId: all[0], Agent: "b"}, 1},
		"of an intent": {&dispatcherv1.ListTasksRequest{IntentId: ident.From("intent", "a", "1")}, 5},
		"of some intents": {&dispatcherv1.ListTasksRequest{
			IntentIds: []string{"none", ident.From("intent", "a", "1"), ident.From("intent", "b", "1")},
		}, 10},
		"of some intents, of an agent": {&dispatcherv1.ListTasksRequest{
			IntentIds: []string{"none", ident.From("intent", "a", "1"), ident.From("intent", "b", "1")}, Agent: "b",
		}, 5},
		"of one intent among some": {&dispatcherv1.ListTasksRequest{
			IntentIds: []string{"none", ident.From("intent", "a", "1")},
		}, 5},
		"on some servers": {&dispatcherv1.ListTasksRequest{ServerIds: all[1:3]}, 4},
		"on some servers, of an agent": {
			&dispatcherv1.ListTasksRequest{ServerIds: append([]string{"none"}, all[1:4]...), Agent: "a"}, 3,
		},
		"in a state": {&dispatcherv1.ListTasksRequest{States: []taskv1.State{taskv1.State_STATE_QUEUED}}, 9},
		"in one of two": {
			&dispatcherv1.ListTasksRequest{
				States: []taskv1.State{taskv1.State_STATE_QUEUED, taskv1.State_STATE_ASSIGNED},
			},
			10,
		},
		"of what there is not": {&dispatcherv1.ListTasksRequest{Agent: "c"}, 0},
	}
	for name, c := range queries {
		t.Run(name, func(t *testing.T) {
			whole, err := call[*dispatcherv1.ListTasksResponse](w, "ListTasks", c.q)
			if err != nil || len(whole.Tasks) != c.want || whole.NextCursor != "" {
				t.Fatalf("%d tasks, next %q, %v; want %d", len(whole.GetTasks()), whole.GetNextCursor(), err, c.want)
			}
			var parts []string
			for cursor := ""; ; {
				c.q.Page = &apiv1.Page{Limit: 3, Cursor: cursor}
				r, err := call[*dispatcherv1.ListTasksResponse](w, "ListTasks", c.q)
				if err != nil {
					t.Fatal(err)
				}
				for _, x := range r.Tasks {
					parts = append(parts, x.Id)
				}
				if cursor = r.NextCursor; cursor == "" {
					break
				}
			}
			var ids []string
			for _, x := range whole.Tasks {
				ids = append(ids, x.Id)
			}
			if !slices.Equal(ids, parts) {
				t.Errorf("the pages are %v, the whole list is %v", parts, ids)
			}
		})
	}
}

func TestAQueuedTaskShowsWhyItWaits(t *testing.T) {
	t.Parallel()
	w, _, _ := queuedWorld(t)
	r, err := call[*dispatcherv1.ListTasksResponse](w, "ListTasks",
		&dispatcherv1.ListTasksRequest{States: []taskv1.State{taskv1.State_STATE_QUEUED}})
	if err != nil {
		t.Fatal(err)
	}
	have, want := map[string]bool{}, map[string]bool{}
	for n, x := range r.Tasks {
		have[x.Reason] = true
		want[fmt.Sprintf("waits for its turn: number %d in the queue; 1 of 1 tasks are under way", n+1)] = true
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("reasons (-want +have):\n%s", diff)
	}
}

func TestOnlyAQueuedTaskIsCancelled(t *testing.T) {
	t.Parallel()
	w, d, all := queuedWorld(t)
	var queued, assigned *taskv1.Task
	for _, s := range all {
		for _, x := range w.tasks(d, s) {
			if x.State == taskv1.State_STATE_QUEUED {
				queued = x
			} else {
				assigned = x
			}
		}
	}
	r, err := call[*dispatcherv1.CancelTaskResponse](w, "CancelTask",
		&dispatcherv1.CancelTaskRequest{Task: queued.Id[:18], Reason: "not today"})
	if err != nil || r.Task.State != taskv1.State_STATE_CANCELLED || r.Task.Reason != "not today" {
		t.Fatalf("cancelled: %v, %v", r, err)
	}
	for _, id := range []string{assigned.Id, queued.Id} {
		_, err = call[*dispatcherv1.CancelTaskResponse](w, "CancelTask", &dispatcherv1.CancelTaskRequest{Task: id})
		if !fault.Is(err, fault.Conflict) || fault.RefusalOf(err).GetCode() != "NOT_QUEUED" {
			t.Errorf("cancel %s: %v, want NOT_QUEUED", id, err)
		}
	}
	w.report(assigned.ServerId, assigned.Id, taskv1.State_STATE_SUCCEEDED, nil)
	w.replay(1)
}

func TestRefusalsNameTheNearestMatchAndWhatToTry(t *testing.T) {
	t.Parallel()
	w, d, all := queuedWorld(t)
	known := w.tasks(d, all[0])[0].Id
	w.say(ledger.Server, serverID(77), &serverv1.Invited{Name: "new", Cell: "main"})
	polltest.Eventually(t, "the invited server is known", func() bool {
		ok := false
		d.follower.Read(func() { _, ok = d.view.Rows.Server(serverID(77)) })
		return ok
	})
	ask := map[string]func() error{
		"NOT_FOUND": func() error {
			_, err := call[*dispatcherv1.GetTaskResponse](w, "GetTask",
				&dispatcherv1.GetTaskRequest{Task: known[:8] + "x"})
			return err
		},
		"MALFORMED": func() error {
			_, err := call[*dispatcherv1.GetTaskResponse](w, "GetTask", &dispatcherv1.GetTaskRequest{})
			return err
		},
		"UNKNOWN_SERVER": func() error {
			_, err := call[*dispatcherv1.GetDocumentResponse](w, "GetDocument",
				&dispatcherv1.GetDocumentRequest{ServerId: all[0][:8]})
			return err
		},
		"NO_DOCUMENT": func() error {
			_, err := call[*dispatcherv1.GetDocumentResponse](w, "GetDocument",
				&dispatcherv1.GetDocumentRequest{ServerId: serverID(77)})
			return err
		},
		"INVALID": func() error {
			_, err := call[*dispatcherv1.ListTasksResponse](w, "ListTasks",
				&dispatcherv1.ListTasksRequest{Page: &apiv1.Page{Cursor: "x"}})
			return err
		},
	}
	near := map[string]string{"NOT_FOUND": known, "UNKNOWN_SERVER": all[0]}
	for code, f := range ask {
		r := fault.RefusalOf(f())
		if r.GetCode() != code || r.GetTry() == "" || r.GetNearest() != near[code] {
			t.Errorf("want %s near %q, have %s", code, near[code], fmt.Sprint(r))
		}
	}
}

func TestGetDocumentReturnsTheStoredDocument(t *testing.T) {
	t.Parallel()
	w, d, all := queuedWorld(t)
	same(t, w, d, all[0])
	r, err := call[*dispatcherv1.GetDocumentResponse](w, "GetDocument",
		&dispatcherv1.GetDocumentRequest{ServerId: all[0]})
	if err != nil || r.Document.String() != w.document(all[0]).String() ||
		!strings.Contains(r.Document.String(), all[0]) {
		t.Errorf("answered %v, %v; stored %v", r.GetDocument(), err, w.document(all[0]))
	}
}

// Without the removal the server would never be dead.
func TestARemovalFromADyingServerIsNotCancelled(t *testing.T) {
	t.Parallel()
	w, d, all := queuedWorld(t)
	server := all[0]
	agent := w.tasks(d, server)[0].Agent
	w.say(ledger.Server, server, &serverv1.Offline{})
	w.say(ledger.Server, server, &serverv1.Dying{})
	unwanted := &instancev1.Unwanted{InstanceId: instanceID(server, agent), Generation: 2}
	w.say(ledger.Instance, ledger.Key(server, agent), unwanted)
	var removal *taskv1.Task
	polltest.Eventually(t, "its removal is queued", func() bool {
		for _, x := range w.tasks(d, server) {
			if x.Verb == taskv1.Verb_VERB_REMOVE && x.State == taskv1.State_STATE_QUEUED {
				removal = x
			}
		}
		return removal != nil
	})
	_, err := call[*dispatcherv1.CancelTaskResponse](w, "CancelTask", &dispatcherv1.CancelTaskRequest{Task: removal.Id})
	if r := fault.RefusalOf(err); r.GetCode() != "SERVER_DYING" || !strings.Contains(r.GetTry(), "--lost") {
		t.Errorf("cancel: %v, want SERVER_DYING and the remedy", err)
	}
}
