package view

import (
	"time"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	deadlines "github.com/garrison-fleet/garrison/pkg/deadline"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/task"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/usual"
)

// Durations is how long tasks took, and how long others may take by that.
type Durations struct {
	*tables
	rows *Rows
}

// kindOf returns the key of the durations of tasks like a task. What a refresh asks for decides how long it takes.
func kindOf(t *taskv1.Task) string {
	verb := word(t.GetVerb().String(), "VERB_")
	switch {
	case t.GetAhead() != nil:
		return ledger.Key(verb, "ahead")
	case t.GetScan() != nil:
		return ledger.Key(verb, "scan")
	case t.GetPurgeKept():
		return ledger.Key(verb, "purge")
	case t.GetAgent() == "":
		return ledger.Key(verb, "report")
	}
	return ledger.Key(t.GetAgent(), verb)
}

// learn counts how long a task took, if it succeeded.
func (d *Durations) learn(f ledger.Fact, t *taskv1.Task) {
	if t.State != taskv1.State_STATE_SUCCEEDED || t.AssignedAt == nil {
		return
	}
	kind := kindOf(t)
	r, _ := d.durations.Get(kind)
	d.durations.Put(kind, usual.Learn(r, f.At.Sub(t.AssignedAt.AsTime()), t.GetOutcome().GetSteps()), f.Sequence)
}

// forget forgets how long the changes of an agent took that was deleted.
func (d *Durations) forget(agent string) {
	for verb := range taskv1.Verb_name {
		d.durations.Forget(kindOf(&taskv1.Task{Agent: agent, Verb: taskv1.Verb(verb)}))
	}
}

// timedOut reports whether the next change of an instance has all the time, as the last one that ended ran out of it.
func timedOut(last *taskv1.Task, before bool) bool {
	switch last.State {
	case taskv1.State_STATE_EXPIRED:
		return true
	case taskv1.State_STATE_UNDONE, taskv1.State_STATE_FAILED:
		return before || last.GetOutcome().GetCode() == code.TimedOut
	case taskv1.State_STATE_SUCCEEDED:
		return false
	}
	return before
}

// SetWithin sets how long tasks may be under way that are assigned together.
func (d *Durations) SetWithin(tasks []Admission, b usual.Bounds) {
	on := map[string][]*taskv1.Task{} // by server
	for _, a := range tasks {
		on[a.task.ServerId] = append(on[a.task.ServerId], a.task)
	}
	for n, a := range tasks {
		tasks[n].Within = d.within(a.task, on[a.task.ServerId], b)
	}
}

// Within returns how long a task that is under way may go on.
func (d *Durations) Within(t *taskv1.Task, b usual.Bounds) time.Duration { return d.within(t, nil, b) }

// within returns how long a task may be under way: what its images' own limits need beyond the default ones, and what
// is learnt from others. Those that are assigned to its server together with it take their time beside it.
func (d *Durations) within(t *taskv1.Task, together []*taskv1.Task, b usual.Bounds) time.Duration {
	to, from := d.images.manifest(t.GetTo().GetId()), d.images.manifest(t.GetFrom().GetId())
	extra := deadlines.Extra(to.GetRun(), from.GetRun())
	if t == nil { // a report names a task that is not known
		return b.Unknown
	}
	var beside []usual.Change
	add := func(other *taskv1.Task) {
		if other.GetId() != t.GetId() && other.GetAgent() != "" && !task.Waits(other) {
			beside = append(beside, d.changeOf(other))
		}
	}
	for _, other := range together {
		add(other)
	}
	for _, r := range d.open[t.GetServerId()] {
		if task.UnderWay(r.Task.State) {
			add(r.Task)
		}
	}
	return b.Within(d.changeOf(t), beside) + extra
}

// changeOf returns what is known of changes like a task.
func (d *Durations) changeOf(t *taskv1.Task) usual.Change {
	durations, _ := d.durations.Get(kindOf(t))
	c := usual.Change{Durations: durations}
	if t.GetTo().GetId() != t.GetFrom().GetId() { // otherwise it fetches nothing
		c.Bytes = d.images.manifest(t.GetTo().GetId()).GetBlob().GetSizeBytes()
	}
	if i, ok := d.rows.instanceFor(t); ok {
		c.TimedOut = i.TimedOut
	}
	if t.GetAgent() == "" {
		c.Bytes = d.images.manifest(t.GetAhead().GetImage().GetId()).GetBlob().GetSizeBytes()
		c.TimedOut = d.lastTimedOut(t)
	}
	return c
}

// lastTimedOut reports whether the last refresh like a task that ended on its server ran out of time.
func (d *Durations) lastTimedOut(t *taskv1.Task) bool {
	list, timedOut := d.lists.byName[inServer(t.GetServerId())], false
	if list == nil {
		return false
	}
	kind := kindOf(t)
	list.Reverse(func(_ uint64, id string) bool {
		r, _ := d.tasks.Get(id)
		before := r.GetTask()
		if kindOf(before) != kind || before.GetAssignedAt() == nil || !task.Ended(before.State) {
			return true
		}
		timedOut = before.State == taskv1.State_STATE_EXPIRED
		return false
	})
	return timedOut
}

// UsualOfKind returns the median of a step in the last changes like a task; false when that is not known.
func (d *Durations) UsualOfKind(t *taskv1.Task, step taskv1.Step) (time.Duration, bool) {
	durations, _ := d.durations.Get(kindOf(t))
	return usual.Median(durations, step)
}
