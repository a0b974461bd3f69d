package view

import (
	"fmt"

	"github.com/tidwall/btree"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/task"
)

func (v *View) applyTask(f ledger.Fact) bool {
	if c, ok := f.Body.(*taskv1.Claimed); ok {
		return v.claimed(f, c)
	}
	r, known := v.tasks.Get(f.Key)
	v.tasks.Touch(f.Key, f.Sequence)
	if q, ok := f.Body.(*taskv1.Queued); ok {
		if !known {
			v.queued(f, q)
		}
		return !known
	}
	if !known {
		return false
	}
	if late, ok := f.Body.(*taskv1.ReportedLate); ok {
		return reportedLate(r.Task, late)
	}
	what := task.FactOf(f.Body)
	next, ok := task.Next(r.Task.State, what)
	if !ok {
		return false
	}
	v.moved(f, r, what, next)
	return true
}

// reportedLate completes the record of a task that expired with what its server said later.
func reportedLate(t *taskv1.Task, late *taskv1.ReportedLate) bool {
	if !task.TakesLate(t) {
		return false
	}
	t.Reported, t.Outcome = late.State, late.Outcome
	t.Reason += fmt.Sprintf("; its server said later that it %s", task.EndOf(late.State))
	return true
}

func (v *View) queued(f ledger.Fact, q *taskv1.Queued) {
	at := timestamppb.New(f.At)
	r := &dispatcherv1.TaskRecord{QueuedSequence: f.Sequence, Task: &taskv1.Task{
		Id: f.Key, Verb: q.Verb, ServerId: q.ServerId, Agent: q.Agent, InstanceId: q.InstanceId, Generation: q.Generation,
		Attempt: q.Attempt, From: q.From, To: q.To, IntentId: q.IntentId, State: taskv1.State_STATE_QUEUED,
		Since: at, QueuedAt: at, Deadline: q.Deadline,
	}}
	// A task whose instance has moved on is outdated, and never assigned.
	if i, ok := v.instanceFor(r.Task); ok && i.Generation == q.Generation {
		r.Configuration = i.Configuration
	}
	v.tasks.Put(f.Key, r, f.Sequence)
	v.indexTask(f.Key, r)
	if q.Verb == taskv1.Verb_VERB_REFRESH {
		v.opened(q, v.dropRefresh(q.IntentId, q.ServerId), nil)
	} else {
		v.queuedFor(f.Key, r.Task, q)
	}
	v.reviewTasks(q.ServerId)
}

// queuedFor notes a task that was queued in the instance that it is about.
func (v *View) queuedFor(id string, t *taskv1.Task, q *taskv1.Queued) {
	i, ok := v.instanceFor(t)
	if !ok {
		v.opened(q, false, nil)
		return
	}
	v.opened(q, i.Generation == q.Generation && v.awaited(i) != "", i)
	if newer(q, i) {
		v.changeInstance(i, func() {
			i.TaskId, i.TaskGeneration, i.Attempt, i.ExpiredSequence = id, q.Generation, q.Attempt, 0
			i.TaskState = t.State
		})
	}
}

func newer(q *taskv1.Queued, i *dispatcherv1.InstanceRecord) bool {
	return q.Generation > i.TaskGeneration || (q.Generation == i.TaskGeneration && q.Attempt > i.Attempt)
}

// instanceFor gives the instance that a task is about, if it is still there.
func (v *View) instanceFor(t *taskv1.Task) (*dispatcherv1.InstanceRecord, bool) {
	i, ok := v.instances.Get(ledger.Key(t.ServerId, t.Agent))
	return i, ok && t.InstanceId != "" && i.InstanceId == t.InstanceId
}

// moved takes a task to its next state, and what hangs on it along.
func (v *View) moved(f ledger.Fact, r *dispatcherv1.TaskRecord, what task.Fact, next taskv1.State) {
	before := r.Task.State
	if before == taskv1.State_STATE_QUEUED {
		v.leftQueue(f.Sequence)
	}
	v.unindexTask(f.Key, r)
	v.recount(r.Task.IntentId, before, next)
	r.Task.State, r.Task.Since = next, timestamppb.New(f.At)
	r.Task.Reason, r.Task.Outcome = said(f.Body, before)
	if a, ok := f.Body.(*taskv1.Assigned); ok {
		r.Task.Deadline, r.Task.AssignedAt = a.Deadline, timestamppb.New(f.At)
	}
	if task.Ended(next) {
		r.Task.Deadline, r.EndedSequence = nil, f.Sequence
	}
	v.indexTask(f.Key, r)
	v.moveInstance(f, r, what, before)
	if task.Ended(next) {
		r.Configuration = nil // it is of no use any more, and thousands of ended tasks are kept
	}
	if what != task.WasStarted && (task.UnderWay(before) || task.UnderWay(next)) {
		v.documentChanged(r.Task.ServerId, f)
	}
	v.reviewTasks(r.Task.ServerId)
	v.trim()
}

// moveInstance takes the instance along that a task is about.
func (v *View) moveInstance(f ledger.Fact, r *dispatcherv1.TaskRecord, what task.Fact, before taskv1.State) {
	i, ok := v.instanceFor(r.Task)
	if !ok {
		return
	}
	if i.TaskId == f.Key {
		i.TaskState = r.Task.State
	}
	if what == task.WasAssigned {
		v.admitted(i, f.Key, r)
		return
	}
	if task.UnderWay(before) && task.Ended(r.Task.State) && i.OpenTaskId == f.Key {
		v.settled(i, what)
	}
	if i.TaskId == f.Key && task.TriedAgain(what, r.Task.Verb) {
		v.changeInstance(i, func() { i.ExpiredSequence = f.Sequence })
	}
}

// said gives what a fact says of why a task is where it is.
func said(body proto.Message, before taskv1.State) (reason string, outcome *taskv1.Outcome) {
	switch b := body.(type) {
	case *taskv1.Succeeded:
		return "", b.Outcome
	case *taskv1.Failed:
		return b.Outcome.GetReason(), b.Outcome
	case *taskv1.Undone:
		return b.Outcome.GetReason(), b.Outcome
	case *taskv1.Cancelled:
		if b.Code != "" {
			outcome = &taskv1.Outcome{Code: b.Code, Reason: b.Reason}
		}
		return b.Reason, outcome
	case *taskv1.Expired:
		return fmt.Sprintf("its deadline passed while it was %s", task.StateOf(before)), nil
	case *taskv1.Superseded:
		return "task " + ident.Short(b.ByTaskId) + " took its place", nil
	}
	return "", nil
}

// endedLike returns the tasks that ended as one with a state did.
func (v *View) endedLike(s taskv1.State) *btree.Map[uint64, string] {
	if s == taskv1.State_STATE_SUCCEEDED {
		return &v.succeeded
	}
	return &v.otherwise
}

// trim forgets the tasks that ended first, so that the view stays bounded. Those that succeeded and the others have a
// bound each: however many succeed, what went wrong stays to be read.
func (v *View) trim() {
	for _, ended := range []*btree.Map[uint64, string]{&v.succeeded, &v.otherwise} {
		for ended.Len() > v.keepEnded {
			_, id, _ := ended.PopMin()
			if r, ok := v.tasks.Get(id); ok {
				v.unlist(id, r)
				v.tasks.Forget(id)
			}
		}
	}
}
