package view

import (
	"time"

	"google.golang.org/protobuf/proto"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	deadlines "github.com/garrison-fleet/garrison/pkg/deadline"
	"github.com/garrison-fleet/garrison/pkg/noun/task"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/admission"
	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/document"
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
func (v *View) Openings(most int) []Opening {
	var out []Opening
	v.instances.due.Scan(func(_ uint64, key string) bool {
		if i, ok := v.instances.table.Get(key); ok {
			out = append(out, v.opening(i))
		}
		return len(out) < most
	})
	v.refreshes.due.Scan(func(sequence uint64, intent string) bool {
		r, _ := v.refreshes.table.Get(intent)
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

func (v *View) opening(i *dispatcherv1.InstanceRecord) Opening {
	s, _ := v.servers.Get(i.ServerId)
	attempt := opening.Due(i, s)
	id, q := opening.ForInstance(i, attempt, s.GetEpoch())
	o := Opening{ID: id, Body: proto.CloneOf(q), Cause: i.DecidedSequence}
	if attempt > 1 {
		o.Cause = s.GetOnlineSequence()
	}
	return o
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
func (v *View) Outdated(most int) []Ending {
	var out []Ending
	for id := range v.outdated {
		if r, ok := v.tasks.Get(id); ok {
			e := v.ending(id, r, v.endOf(r))
			e.Cause = v.causeOf(r)
			out = append(out, e)
		}
		if len(out) == most {
			break
		}
	}
	return out
}

// Overdue returns the open tasks whose deadline passed, at most most.
func (v *View) Overdue(now time.Time, most int) []Ending {
	var out []Ending
	spares := v.Site.spares(now)
	v.deadlines.Scan(func(d deadline) bool {
		if d.at > now.UnixNano() || len(out) == most {
			return false
		}
		if r, ok := v.tasks.Get(d.id); ok && !(spares && r.Task.State == taskv1.State_STATE_QUEUED) {
			out = append(out, v.ending(d.id, r, &taskv1.Expired{
				State: r.Task.State, Deadline: r.Task.Deadline, ServerDead: v.isDead(r.Task.ServerId),
			}))
		}
		return true
	})
	return out
}

// causeOf returns the fact that makes a queued task end: the last one about its instance or server.
func (v *View) causeOf(r *dispatcherv1.TaskRecord) uint64 {
	if c, ok := v.endOf(r).(*taskv1.Cancelled); ok && c.Withdrawn {
		p, _ := v.counts.table.Get(r.Task.IntentId)
		return p.GetWithdrawnSequence()
	}
	if i, ok := v.instanceFor(r.Task); ok {
		return i.DecidedSequence
	}
	return v.servers.Sequence(r.Task.ServerId)
}

func (v *View) ending(id string, r *dispatcherv1.TaskRecord, body proto.Message) Ending {
	return Ending{
		ID: id, Intent: r.Task.IntentId, Body: proto.Clone(body), Guard: v.tasks.Sequence(id),
		Queued: r.Task.State == taskv1.State_STATE_QUEUED,
	}
}

// NextDeadline returns the earliest deadline of an open task; false without open tasks.
func (v *View) NextDeadline() (time.Time, bool) {
	d, ok := v.deadlines.Min()
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
func (v *View) Admissions(at time.Time, concurrency, most int) (tasks []Admission) {
	room := &room{images: v.images, instancesOf: v.instances.byServer, ahead: v.aheadBytes, taken: map[string]int{}}
	for _, c := range admission.Limit(v.admissible(at, concurrency), v.SlotsTaken(concurrency), concurrency, most) {
		t := c.record.Task
		a := Admission{ID: t.Id, Intent: t.IntentId, Cause: v.tasks.Sequence(t.Id), task: t}
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

// BusyLimit returns how long critical sections on a server defer a change at most.
func (v *View) BusyLimit(server string) time.Duration {
	s, _ := v.servers.Get(server)
	e, _ := v.settings.Get(s.GetEnvironment())
	if own := e.GetBusyLimit(); own != nil {
		return own.AsDuration()
	}
	return deadlines.Busy
}

// UnderWay returns how many tasks are assigned or running, without those that wait.
func (v *View) UnderWay() int { return v.underWay }

// Waiting returns how many tasks are deferred, or assigned to a server that is offline.
func (v *View) Waiting() int { return v.waiting }

// Task returns a copy of a task, the sequence of the last fact on its key, and whether it is known.
func (v *View) Task(id string) (*taskv1.Task, uint64, bool) {
	r, ok := v.tasks.Get(id)
	if !ok {
		return nil, v.tasks.Sequence(id), false
	}
	return proto.CloneOf(r.Task), v.tasks.Sequence(id), true
}

// Server returns a copy of a server's record, and whether the server is known.
func (v *View) Server(id string) (*dispatcherv1.ServerRecord, bool) {
	s, ok := v.servers.Get(id)
	return proto.CloneOf(s), ok
}

// Document projects a server's document; false when it has none. The document shares
// the view's records: encode or clone it before the view moves on.
func (v *View) Document(server string) (*desiredv1.Document, bool) {
	s, ok := v.servers.Get(server)
	if !ok || s.DocumentGeneration == 0 {
		return nil, false
	}
	rows := document.Rows{ServerID: server, Server: s, Manifest: v.images.manifest}
	rows.Environment, _ = v.settings.Get(s.Environment)
	for _, i := range v.instances.byServer[server] {
		rows.Instances = append(rows.Instances, i)
	}
	for _, r := range v.openOf[server] {
		if task.UnderWay(r.Task.State) {
			rows.UnderWay = append(rows.UnderWay, r.Task)
		}
		if v.givesUp(r.Task) {
			rows.Unwanted = append(rows.Unwanted, r.Task.Id)
		}
	}
	d := document.Project(rows)
	makeWay(d)
	return d, true
}
