package dispatcher

import (
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// tell publishes a live report of a task, as its server would.
func (w *world) tell(server, taskID string, step taskv1.Step) {
	at := topology.ServerAddress{Cell: "main", Server: server}
	data, err := proto.Marshal(&taskv1.Progress{TaskId: taskID, Step: step})
	if err == nil {
		err = w.conn.Publish(topology.LiveSubject(at, topology.LiveTask), data)
	}
	if err != nil {
		w.t.Error(err)
	}
}

// proving accepts an intent on five servers. Four have succeeded, and the last one is at its
// health check. It returns the last task.
func (w *world) proving(d *Dispatcher) (intent string, last *taskv1.Task) {
	image, agent := w.image("beacon", "1.0.0"), "beacon"
	intent = ident.From("intent", agent, "1")
	for n := range 5 {
		w.enrol(serverID(n))
		w.want(serverID(n), agent, 1, image)
	}
	w.say(ledger.Intent, intent, &intentv1.Accepted{Intent: &intentv1.Intent{}, Changed: 5})
	for n := range 5 {
		last = w.awaitTask(d, serverID(n), agent, 1, taskv1.State_STATE_ASSIGNED)
		w.report(serverID(n), last.Id, taskv1.State_STATE_RUNNING, nil)
		if n < 4 {
			w.report(serverID(n), last.Id, taskv1.State_STATE_SUCCEEDED, &taskv1.Outcome{Steps: []*taskv1.StepTime{
				{Step: taskv1.Step_STEP_PROVE, Took: durationpb.New(10 * time.Second)},
			}})
		}
	}
	return intent, w.awaitTask(d, serverID(4), agent, 1, taskv1.State_STATE_RUNNING)
}

func TestAnIntentShowsItsProgressAndItsSlowTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var ahead atomic.Int64
	d, _ := w.start(Config{Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	intent, last := w.proving(d)
	ask := func() *dispatcherv1.IntentProgress { return w.progress(3, intent)[0] }
	polltest.Eventually(t, "four succeeded and one runs", func() bool {
		c := ask().Counts
		return c.Succeeded == 4 && c.Running == 1
	})
	w.tell(serverID(1), last.Id, taskv1.Step_STEP_FETCH) // another server's word is not believed
	w.tell(serverID(4), last.Id, taskv1.Step_STEP_PROVE)
	polltest.Eventually(t, "its step is known", func() bool {
		return ask().UnderWay[0].GetLive().GetStep() == taskv1.Step_STEP_PROVE
	})
	if r := ask(); r.Slow != 0 || r.Ended || len(r.Tasks) > 0 {
		t.Errorf("before: %v", r)
	}
	ahead.Store(int64(31 * time.Second)) // more than three times the ten seconds of the others
	r := ask()
	if l := r.UnderWay[0].GetLive(); r.Slow != 1 || !l.GetSlow() || l.GetUsual().AsDuration() != 10*time.Second {
		t.Errorf("after 31 s at a step that takes 10 s: %v", r)
	}
	shown, err := call[*dispatcherv1.GetTaskResponse](w, "GetTask", &dispatcherv1.GetTaskRequest{Task: last.Id})
	if err != nil || !shown.GetTask().GetLive().GetSlow() {
		t.Errorf("the task shows %v, %v", shown.GetTask().GetLive(), err)
	}
	w.report(serverID(4), last.Id, taskv1.State_STATE_UNDONE, &taskv1.Outcome{Reason: "it did not start"})
	polltest.Eventually(t, "the intent has ended", func() bool { return ask().Ended })
	if r := ask(); len(r.Failures) != 1 || r.Failures[0].GetReason() != "it did not start" || r.Counts.Undone != 1 {
		t.Errorf("at the end: %v", r)
	}
}

// A newer intent replaces a change of an older one before its task is opened: the older one ends too.
func TestAnIntentEndsAlthoughSomeOfItsTasksWereNeverOpened(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server, old := serverID(1), ident.From("intent", "beacon", "1")
	w.enrol(server)
	w.want(server, "beacon", 1, w.image("beacon", "1.0.0"))
	w.say(ledger.Intent, old, &intentv1.Accepted{Intent: &intentv1.Intent{}, Changed: 1})
	w.want(server, "beacon", 2, w.image("beacon", "2.0.0"))
	d, _ := w.start(Config{}) // the first look is at both
	q := &dispatcherv1.GetIntentProgressRequest{IntentIds: []string{old}}
	r, err := d.api.getIntentProgress(t.Context(), bus.Caller{}, q)
	if p := r.GetIntents()[0]; err != nil || !p.GetEnded() || p.GetCounts().GetNeverOpened() != 1 {
		t.Errorf("%v, %v", r, err)
	}
}

func TestARequestShowsEachOfItsIntentsAndRefusesThoseThatAreNotCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, _ := w.start(Config{})
	intent, _ := w.proving(d)
	var all []*dispatcherv1.IntentProgress
	polltest.Eventually(t, "four servers have succeeded", func() bool {
		all = w.progress(100, "x", intent)
		return all[1].GetCounts().GetSucceeded() == 4
	})
	if have := all[0].GetRefusal().GetCode(); have != code.NotCounted || all[0].GetCounts() != nil {
		t.Errorf("an unknown intent: %v", all[0])
	}
	if all[1].GetRefusal() != nil {
		t.Errorf("the other one: %v", all[1])
	}
	for _, ids := range [][]string{nil, make([]string, mostIntents+1)} {
		q := &dispatcherv1.GetIntentProgressRequest{IntentIds: ids}
		_, err := d.api.getIntentProgress(t.Context(), bus.Caller{}, q)
		if have := fault.RefusalOf(err).GetCode(); have != code.Malformed {
			t.Errorf("%d ids: %v", len(ids), err)
		}
	}
}

// progress asks how far intents are.
func (w *world) progress(rows uint32, intents ...string) []*dispatcherv1.IntentProgress {
	w.t.Helper()
	q := &dispatcherv1.GetIntentProgressRequest{IntentIds: intents, Rows: rows}
	r, err := call[*dispatcherv1.GetIntentProgressResponse](w, "GetIntentProgress", q)
	if err != nil {
		w.t.Fatal(err)
	}
	return r.GetIntents()
}
