package view

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

const (
	// sampled is how many tasks that succeeded tell what is usual.
	sampled = 64
	// leastSamples is how many of them it takes.
	leastSamples = 3
	// glanced is how many tasks that are under way are looked at, those that were queued first.
	glanced = 1000
)

// Glance is how far an intent is, at a cost that does not grow with its size.
type Glance struct {
	Record   *dispatcherv1.ProgressRecord
	Tasks    []*taskv1.Task // all, of an intent with no more changes than rows
	UnderWay []*taskv1.Task // in the order of the queue, 1,000 at most
	Failures []*taskv1.Task // the first that ended and did not succeed
}

// failures are the states of the tasks that ended and did not succeed.
var failures = []taskv1.State{
	taskv1.State_STATE_FAILED, taskv1.State_STATE_UNDONE, taskv1.State_STATE_CANCELLED,
	taskv1.State_STATE_EXPIRED, taskv1.State_STATE_SUPERSEDED,
}

// Glance looks at an intent; false when it is not counted, or not any more.
func (v *View) Glance(intent string, rows int) (Glance, bool) {
	r, ok := v.progress.Get(intent)
	if !ok {
		return Glance{}, false
	}
	g := Glance{Record: proto.CloneOf(r)}
	if int(Changes(r.Counts)) <= rows {
		g.Tasks = v.oldest([]string{inIntent(intent)}, glanced)
	}
	g.UnderWay = v.oldest(intentStates(intent, []taskv1.State{taskv1.State_STATE_ASSIGNED, taskv1.State_STATE_RUNNING}), glanced)
	g.Failures = v.oldest(intentStates(intent, failures), rows)
	return g, true
}

// oldest returns the tasks of lists that were queued first.
func (v *View) oldest(lists []string, most int) []*taskv1.Task {
	var found []*dispatcherv1.TaskRecord
	for _, name := range lists {
		l := v.lists[name]
		if l == nil {
			continue
		}
		n := 0
		l.Scan(func(_ uint64, id string) bool {
			if r, ok := v.tasks.Get(id); ok {
				found = append(found, r)
			}
			n++
			return n < most
		})
	}
	slices.SortFunc(found, byQueue)
	var out []*taskv1.Task
	for _, r := range found[:min(most, len(found))] {
		out = append(out, v.Explained(r))
	}
	return out
}

func byQueue(a, b *dispatcherv1.TaskRecord) int {
	switch {
	case a.QueuedSequence < b.QueuedSequence:
		return -1
	case a.QueuedSequence > b.QueuedSequence:
		return 1
	}
	return 0
}

// Usual returns what each step usually took: the medians over the newest tasks of an intent that succeeded. The step
// that is unspecified stands for the whole, from the assignment to the end. A step with too few samples is missing.
func (v *View) Usual(intent string) map[taskv1.Step]time.Duration {
	usual := map[taskv1.Step]time.Duration{}
	l := v.lists[inIntentState(intent, taskv1.State_STATE_SUCCEEDED)]
	if l == nil {
		return usual
	}
	took := map[taskv1.Step][]time.Duration{}
	n := 0
	l.Descend(1<<64-1, func(_ uint64, id string) bool {
		r, ok := v.tasks.Get(id)
		if !ok {
			return true
		}
		for _, s := range r.Task.Outcome.GetSteps() {
			took[s.Step] = append(took[s.Step], s.Took.AsDuration())
		}
		if r.Task.AssignedAt != nil {
			whole := r.Task.Since.AsTime().Sub(r.Task.AssignedAt.AsTime())
			took[taskv1.Step_STEP_UNSPECIFIED] = append(took[taskv1.Step_STEP_UNSPECIFIED], whole)
		}
		n++
		return n < sampled
	})
	for step, all := range took {
		if len(all) >= leastSamples {
			slices.Sort(all)
			usual[step] = all[len(all)/2]
		}
	}
	return usual
}

// OnServer returns the server on which a task is under way; false when it is not.
func (v *View) OnServer(id string) (server string, underWay bool) {
	r, ok := v.tasks.Get(id)
	if !ok || (r.Task.State != taskv1.State_STATE_ASSIGNED && r.Task.State != taskv1.State_STATE_RUNNING) {
		return "", false
	}
	return r.Task.ServerId, true
}
