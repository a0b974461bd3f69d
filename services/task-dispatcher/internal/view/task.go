package view

import (
	"github.com/tidwall/btree"

	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	"github.com/garrison-fleet/garrison/pkg/noun/task"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/opening"
)

func (v *View) applyTask(f ledger.Fact) bool {
	if c, ok := f.Body.(*taskv1.Claimed); ok {
		return v.claims.apply(f, c)
	}
	r, _ := v.tasks.Get(f.Key)
	v.tasks.Touch(f.Key, f.Sequence)
	if !task.Fits(r.GetTask(), f) || r == nil && v.instances.overtaken(f) {
		return false
	}
	switch b := f.Body.(type) {
	case *taskv1.Queued:
		v.queued(f, b)
	case *taskv1.ReportedLate:
		r.Task, _ = task.Apply(r.Task, f)
		v.reportedLate(f, r.Task)
	default:
		if r == nil { // it is assigned without a wait in the queue
			q, opened := task.Opened(f.Body), f
			opened.Body = q
			r = v.queued(opened, q)
		}
		v.moved(f, r)
	}
	return true
}

// queued adds a task, and returns its record.
func (v *View) queued(f ledger.Fact, q *taskv1.Queued) *dispatcherv1.TaskRecord {
	v.claims.worked(f.Sequence)
	r := &dispatcherv1.TaskRecord{QueuedSequence: f.Sequence}
	r.Task, _ = task.Apply(nil, f)
	// A task of an older generation than its instance is outdated, and never assigned.
	if i, ok := v.Rows.instanceFor(r.Task); ok && i.Generation == q.Generation {
		r.Configuration = i.Configuration
	}
	v.tasks.Put(f.Key, r, f.Sequence)
	v.lists.add(f.Key, r)
	v.Queue.add(f.Key, r)
	if q.Verb == taskv1.Verb_VERB_REFRESH {
		v.counts.opened(q, v.refreshes.drop(q.IntentId, q.ServerId), nil)
	} else {
		v.queuedFor(f.Key, r.Task, q)
	}
	v.Queue.review(q.ServerId)
	return r
}

// queuedFor records a queued task in its instance.
func (v *View) queuedFor(id string, t *taskv1.Task, q *taskv1.Queued) {
	i, ok := v.Rows.instanceFor(t)
	if !ok {
		v.counts.opened(q, false, nil)
		return
	}
	v.counts.opened(q, i.Generation == q.Generation && v.Rows.awaited(i) != "", i)
	if newer(q, i) {
		v.instances.change(i, func() {
			i.TaskId, i.TaskGeneration, i.Attempt, i.ExpiredSequence = id, q.Generation, q.Attempt, 0
			i.TaskState = t.State
		})
	}
}

func newer(q *taskv1.Queued, i *dispatcherv1.InstanceRecord) bool {
	return q.Generation > i.TaskGeneration || (q.Generation == i.TaskGeneration && q.Attempt > i.Attempt)
}

// moved applies a fact that moves a task, and updates what depends on the task.
func (v *View) moved(f ledger.Fact, r *dispatcherv1.TaskRecord) {
	before := r.Task.State
	if before == taskv1.State_STATE_QUEUED {
		v.claims.worked(f.Sequence)
	}
	v.lists.leaveState(r)
	v.Queue.remove(f.Key, r)
	r.Task, _ = task.Apply(r.Task, f)
	now := r.Task.State
	v.counts.moved(r.Task.IntentId, before, now)
	if task.Ended(now) {
		r.EndedSequence = f.Sequence
		v.Durations.learn(f, r.Task)
	}
	v.lists.enterState(f.Key, r)
	v.Queue.add(f.Key, r)
	v.moveInstance(f, r, before)
	if task.Ended(now) {
		r.Configuration = nil // no longer needed, and thousands of ended tasks are kept
	}
	deadlineMoved := before == now // it was deferred, or goes on
	if deadlineMoved || now != taskv1.State_STATE_RUNNING && (task.UnderWay(before) || task.UnderWay(now)) {
		v.documents.changed(r.Task.ServerId, f)
	}
	v.Queue.review(r.Task.ServerId)
	for _, r := range v.ended.trim() {
		v.lists.remove(r)
	}
}

// reportedLate settles a task whose server reported its end after it had expired: nothing is open that a retry would
// find out, and of a change that was rolled back the document would ask for what failed there. It changes nothing when
// another task was admitted since.
func (v *View) reportedLate(f ledger.Fact, t *taskv1.Task) {
	i, ok := v.Rows.instanceFor(t)
	if !ok || task.Removes(t.Verb) || !i.Unsettled || i.OpenTaskId != "" ||
		i.PlacedGeneration != t.Generation || i.TaskId != f.Key && i.TaskGeneration == t.Generation {
		return
	}
	v.instances.settle(i, t.Reported)
	if i.TaskId == f.Key { // how it left the server is known now
		v.instances.change(i, func() { i.ExpiredSequence = 0 })
	}
	v.documents.changed(t.ServerId, f)
	v.Queue.review(t.ServerId)
}

// moveInstance updates the instance of a task that moved.
func (v *View) moveInstance(f ledger.Fact, r *dispatcherv1.TaskRecord, before taskv1.State) {
	i, ok := v.Rows.instanceFor(r.Task)
	if !ok {
		return
	}
	if shown := instance.ShownBy(r.Task); shown != nil {
		v.keeps.observed(i, shown)
	}
	if i.TaskId == f.Key {
		i.TaskState = r.Task.State
		i.TimedOut = timedOut(r.Task, i.TimedOut)
	}
	if r.Task.State == taskv1.State_STATE_ASSIGNED {
		a, _ := v.agents.Get(i.Agent)
		v.instances.admitted(i, f.Key, r, a)
		return
	}
	if task.UnderWay(before) && task.Ended(r.Task.State) && i.OpenTaskId == f.Key {
		v.instances.settle(i, r.Task.State)
	}
	if i.TaskId == f.Key && opening.Retried(r.Task.State, r.Task.Verb) {
		v.instances.change(i, func() { i.ExpiredSequence = f.Sequence })
	}
}

// endedTasks keeps the last tasks that ended, so that the view stays bounded. Successful tasks and the
// others have a bound each: however many succeed, the failures stay readable.
type endedTasks struct {
	tasks     *fold.Table[*dispatcherv1.TaskRecord]
	keep      int
	succeeded btree.Map[uint64, string] // task ids, by ended sequence
	otherwise btree.Map[uint64, string]
}

func (e *endedTasks) add(id string, r *dispatcherv1.TaskRecord) {
	if r.Task.State == taskv1.State_STATE_SUCCEEDED {
		e.succeeded.Set(r.EndedSequence, id)
	} else {
		e.otherwise.Set(r.EndedSequence, id)
	}
}

func (e *endedTasks) len() int { return e.succeeded.Len() + e.otherwise.Len() }

// full reports whether ended tasks may have been forgotten.
func (e *endedTasks) full() bool { return max(e.succeeded.Len(), e.otherwise.Len()) >= e.keep }

// trim forgets the tasks that ended first, and returns them.
func (e *endedTasks) trim() map[string]*dispatcherv1.TaskRecord {
	var forgotten map[string]*dispatcherv1.TaskRecord
	for _, ended := range []*btree.Map[uint64, string]{&e.succeeded, &e.otherwise} {
		for ended.Len() > e.keep {
			_, id, _ := ended.PopMin()
			if r, ok := e.tasks.Get(id); ok {
				if forgotten == nil {
					forgotten = map[string]*dispatcherv1.TaskRecord{}
				}
				forgotten[id] = r
				e.tasks.Forget(id)
			}
		}
	}
	return forgotten
}
