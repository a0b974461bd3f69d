package view

import (
	"time"

	"google.golang.org/protobuf/proto"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/admission"
	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/opening"
)

// endFact is the body of a fact that ends a task.
type endFact = proto.Message

// The methods of this file must be called while the view stands still. Their results are not shared
// with it, except for Document's.

// Opening is a task that must be opened.
type Opening struct {
	ID    string
	Body  *taskv1.Queued // without its deadline
	Cause uint64         // the sequence of the fact that led to it
}

// Openings returns the tasks that must be opened, in the order of the facts that led to them, at most
// most.
func (q *Queue) Openings(most int) []Opening {
	var out []Opening
	q.instances.due.Scan(func(_ uint64, key string) bool {
		if i, ok := q.instances.table.Get(key); ok {
			out = append(out, q.rows.opening(i))
		}
		return len(out) < most
	})
	q.refreshes.due.Scan(func(sequence uint64, intent string) bool {
		r, _ := q.refreshes.table.Get(intent)
		for _, server := range r.GetServerIds() {
			if len(out) >= most {
				break
			}
			id, q := opening.ForRefresh(intent, server, r)
			out = append(out, Opening{ID: id, Body: q, Cause: sequence})
		}
		return len(out) < most
	})
	return out
}

// Ending is an open task that must end.
type Ending struct {
	ID, Intent string
	Body       proto.Message
	Cause      uint64 // the sequence of the fact that led to it, or 0
	Guard      uint64 // the sequence of the last fact on its key
	Queued     bool   // only the leader may end it
}

// Outdated returns the queued tasks that must end because of facts since they were queued, at most
// most.
func (q *Queue) Outdated(most int) []Ending {
	var out []Ending
	for id := range q.outdated {
		if r, ok := q.tasks.Get(id); ok {
			e := q.ending(id, r, q.endOf(r))
			e.Cause = q.causeOf(r)
			out = append(out, e)
		}
		if len(out) == most {
			break
		}
	}
	return out
}

// Overdue returns the open tasks whose deadline passed, at most most.
func (q *Queue) Overdue(now time.Time, most int) []Ending {
	var out []Ending
	spares := q.Site.spares(now)
	q.deadlines.Scan(func(d deadline) bool {
		if d.at > now.UnixNano() || len(out) == most {
			return false
		}
		if r, ok := q.tasks.Get(d.id); ok && !(spares && r.Task.State == taskv1.State_STATE_QUEUED) {
			out = append(out, q.ending(d.id, r, &taskv1.Expired{
				State: r.Task.State, Deadline: r.Task.Deadline, ServerDead: q.rows.isDead(r.Task.ServerId),
			}))
		}
		return true
	})
	return out
}

// NextDeadline returns the earliest deadline of an open task; false without open tasks.
func (q *Queue) NextDeadline() (time.Time, bool) {
	d, ok := q.deadlines.Min()
	return time.Unix(0, d.at), ok
}

// Admission is a task that may be assigned.
type Admission struct {
	ID, Intent string
	Cause      uint64            // the sequence of the fact that led to it
	Opened     *taskv1.Queued    // of a task that does not wait in the queue; else nil
	Refused    *taskv1.Cancelled // how it ends instead when its server's document has no room, or nil
	Within     time.Duration     // how long it may be under way; see SetWithin
	task       *taskv1.Task
}

// Admissions returns the tasks that may be assigned at a time under a limit, at most most. One that would end instead
// is queued first.
func (q *Queue) Admissions(at time.Time, concurrency, most int) (tasks []Admission) {
	room := &room{
		images: q.images, instancesOf: q.instances.byServer, ahead: q.rows.aheadBytes, taken: map[string]int{},
	}
	for _, c := range admission.Limit(q.admissible(at, concurrency), q.SlotsTaken(concurrency), concurrency, most) {
		t := c.record.Task
		a := Admission{ID: t.Id, Intent: t.IntentId, Cause: q.tasks.Sequence(t.Id), task: t}
		a.Refused = room.take(c.record)
		if c.opening != nil {
			if a.Refused != nil {
				continue
			}
			a.Opened, a.Cause = c.opening.Body, c.opening.Cause
		}
		tasks = append(tasks, a)
	}
	return tasks
}

// UnderWay returns how many tasks are assigned or running, without those that wait.
func (q *Queue) UnderWay() int { return q.underWay }

// Waiting returns how many tasks are deferred, or assigned to a server that is offline.
func (q *Queue) Waiting() int { return q.waiting }
