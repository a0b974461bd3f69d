package dispatcher

import (
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/polltest"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/usual"
)

// succeed installs an agent on servers. Each reports that its health check took two seconds.
func (w *world) succeed(d *Dispatcher, image *imagev1.Ref, from, to int) {
	w.t.Helper()
	for n := from; n < to; n++ {
		w.enrol(serverID(n))
		w.want(serverID(n), "beacon", 1, image)
	}
	for n := from; n < to; n++ {
		t := w.awaitTask(d, serverID(n), "beacon", 1, taskv1.State_STATE_ASSIGNED)
		w.report(serverID(n), t.Id, taskv1.State_STATE_SUCCEEDED, &taskv1.Outcome{Steps: []*taskv1.StepTime{
			{Step: taskv1.Step_STEP_PROVE, Took: durationpb.New(2 * time.Second)},
		}})
	}
	for n := from; n < to; n++ {
		w.awaitTask(d, serverID(n), "beacon", 1, taskv1.State_STATE_SUCCEEDED)
	}
}

// within assigns a task of another intent to a server, and returns it with how long it may be under way.
func (w *world) within(d *Dispatcher, n int, agent string, image *imagev1.Ref) (*taskv1.Task, time.Duration) {
	w.t.Helper()
	w.enrol(serverID(n))
	w.want(serverID(n), agent, 2, image)
	t := w.awaitTask(d, serverID(n), agent, 2, taskv1.State_STATE_ASSIGNED)
	return t, t.Deadline.AsTime().Sub(t.AssignedAt.AsTime()).Round(time.Minute)
}

func TestDeadlinesAreLearntFromTheTasksThatSucceeded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := Config{TaskDeadline: 40 * time.Minute, LeastDeadline: 5 * time.Minute, Store: t.TempDir()}
	image, other := w.image("beacon", "1.0.0"), w.image("other", "1.0.0")
	d, stop := w.start(c)
	w.succeed(d, image, 0, usual.Enough-1)
	if _, have := w.within(d, 100, "beacon", image); have != c.TaskDeadline {
		t.Errorf("before enough succeeded a task has %s, want %s", have, c.TaskDeadline)
	}
	w.succeed(d, image, usual.Enough-1, usual.Enough)
	if _, have := w.within(d, 101, "beacon", image); have != c.LeastDeadline {
		t.Errorf("after enough succeeded a task has %s, want %s", have, c.LeastDeadline)
	}
	if _, have := w.within(d, 102, "other", other); have != c.TaskDeadline {
		t.Errorf("a task of another agent has %s, want %s", have, c.TaskDeadline)
	}
	stop()
	d, _ = w.start(c)
	if _, have := w.within(d, 103, "beacon", image); have != c.LeastDeadline {
		t.Errorf("after a restart a task has %s, want %s", have, c.LeastDeadline)
	}
}

// A new intent has no medians of its own yet.
func TestATaskThatIsSlowForItsKindIsListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var ahead atomic.Int64
	d, _ := w.start(Config{Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	image := w.image("beacon", "1.0.0")
	w.succeed(d, image, 0, usual.Enough)
	slow, _ := w.within(d, 100, "beacon", image)
	w.within(d, 101, "other", w.image("other", "1.0.0"))
	w.tell(serverID(100), slow.Id, taskv1.Step_STEP_PROVE)
	q := &dispatcherv1.ListTasksRequest{Slow: true}
	list := func() []*taskv1.Task {
		r, err := call[*dispatcherv1.ListTasksResponse](w, "ListTasks", q)
		if err != nil {
			t.Fatal(err)
		}
		return r.Tasks
	}
	polltest.Eventually(t, "its step is known", func() bool {
		last, _ := d.live.get(slow.Id)
		return last.progress.GetStep() == taskv1.Step_STEP_PROVE
	})
	ahead.Store(int64(8 * time.Second)) // more than three times two seconds, and a class
	have := list()
	if len(have) != 1 || have[0].Id != slow.Id || have[0].GetLive().GetUsual().AsDuration() > 3*time.Second {
		t.Fatalf("slow are %v, want the one on server 100", have)
	}
	n, err := call[*dispatcherv1.CountTasksResponse](w, "CountTasks", &dispatcherv1.CountTasksRequest{
		Filter: q, By: []string{"state"},
	})
	if err != nil || n.GetTotal() != 1 || len(n.GetGroups()) != 1 {
		t.Errorf("%v, %v; want one slow task counted", n, err)
	}
	w.report(serverID(100), slow.Id, taskv1.State_STATE_SUCCEEDED, nil)
	w.awaitTask(d, serverID(100), "beacon", 2, taskv1.State_STATE_SUCCEEDED)
	if have := list(); len(have) != 0 {
		t.Errorf("slow are %v after it ended", have)
	}
}
