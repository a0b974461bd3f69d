package view

import (
	"google.golang.org/protobuf/proto"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/noun/task"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/opening"
)

// isOutdated reports whether the outcome of a queued task is no longer wanted, even if its
// successor is not queued yet.
func (q *Queue) isOutdated(r *dispatcherv1.TaskRecord) bool {
	if r.Task.State != taskv1.State_STATE_QUEUED {
		return false
	}
	if r.Task.Verb != taskv1.Verb_VERB_REFRESH {
		i, ok := q.rows.instanceFor(r.Task)
		if !ok || i.Generation > r.Task.Generation {
			return true
		}
	}
	return q.endOf(r) != nil
}

// endOf returns the fact that must end a queued task because of facts since it was queued, or nil.
func (q *Queue) endOf(r *dispatcherv1.TaskRecord) endFact {
	t := r.Task
	s, _ := q.servers.Get(t.ServerId)
	if q.rows.isDead(t.ServerId) {
		return &taskv1.Cancelled{Reason: "the server is no more"}
	}
	if i, ok := q.rows.instanceFor(t); t.Verb != taskv1.Verb_VERB_REFRESH {
		switch {
		case !ok:
			return &taskv1.Cancelled{Reason: "the instance is no more"}
		case i.TaskGeneration > t.Generation:
			return &taskv1.Superseded{ByTaskId: i.TaskId}
		case i.Generation > t.Generation && opening.Due(i, s) == 0:
			return &taskv1.Cancelled{Reason: "it is no longer wanted"} // and it has no successor
		}
	}
	if s.Life == serverv1.Life_LIFE_DYING && !task.Removes(t.Verb) {
		return &taskv1.Cancelled{Reason: "the server is dying"}
	}
	return q.rows.withdrawn(t)
}

// causeOf returns the fact that makes a queued task end: the last one about its instance or server.
func (q *Queue) causeOf(r *dispatcherv1.TaskRecord) uint64 {
	if c, ok := q.endOf(r).(*taskv1.Cancelled); ok && c.Withdrawn {
		p, _ := q.counts.table.Get(r.Task.IntentId)
		return p.GetWithdrawnSequence()
	}
	if i, ok := q.rows.instanceFor(r.Task); ok {
		return i.DecidedSequence
	}
	return q.servers.Sequence(r.Task.ServerId)
}

func (q *Queue) ending(id string, r *dispatcherv1.TaskRecord, body proto.Message) Ending {
	return Ending{
		ID: id, Intent: r.Task.IntentId, Body: proto.Clone(body), Guard: q.tasks.Sequence(id),
		Queued: r.Task.State == taskv1.State_STATE_QUEUED,
	}
}
