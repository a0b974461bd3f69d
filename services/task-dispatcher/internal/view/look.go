package view

import (
	"time"

	"google.golang.org/protobuf/proto"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	deadlines "github.com/garrison-fleet/garrison/pkg/deadline"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/admission"
	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/document"
	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/task"
)

// endFact is the body of a fact that ends a task.
type endFact = proto.Message

// The methods of this file look at the view. They are called while it stands still, and
// what they give is not shared with it.

// Opening is a task that must be opened.
type Opening struct {
	ID    string
	Body  *taskv1.Queued // without its deadline
	Cause uint64         // the place of the fact that led to it
	Guard uint64         // the sequence of the last fact on its key: 0, unless something that does not fit is there
}

// Openings gives the tasks that must be opened, in the order of what led to them, at most most.
func (v *View) Openings(most int) []Opening {
	var out []Opening
	v.due.Scan(func(_ uint64, key string) bool {
		if i, ok := v.instances.Get(key); ok {
			s, _ := v.servers.Get(i.ServerId)
			out = append(out, v.opening(i, s))
		}
		return len(out) < most
	})
	v.refreshDue.Scan(func(sequence uint64, intent string) bool {
		r, _ := v.refreshes.Get(intent)
		for _, server := range r.GetServerIds() {
			if len(out) >= most {
				break
			}
			id, q := task.ForRefresh(intent, server, sequence)
			out = append(out, Opening{ID: id, Body: q, Cause: sequence, Guard: v.tasks.Sequence(id)})
		}
		return len(out) < most
	})
	return out
}

func (v *View) opening(i *dispatcherv1.InstanceRecord, s *dispatcherv1.ServerRecord) Opening {
	attempt := task.Due(i, s)
	id, q := task.ForInstance(i, attempt, s.GetEpoch())
	o := Opening{ID: id, Body: proto.CloneOf(q), Cause: i.DecidedSequence, Guard: v.tasks.Sequence(id)}
	if attempt > 1 {
		o.Cause = s.GetOnlineSequence()
	}
	return o
}

// Ending is an open task that must end.
type Ending struct {
	ID, Intent string
	Body       proto.Message
	Cause      uint64 // the place of the fact that led to it, or 0
	Guard      uint64 // the sequence of the last fact on its key
	Queued     bool   // so that only who has the claim may end it
}

// Outdated gives the queued tasks that must end because of what happened since, at most most.
func (v *View) Outdated(most int) []Ending {
	var out []Ending
	for id := range v.stale {
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

// Overdue gives the open tasks whose deadline passed, at most most.
func (v *View) Overdue(now time.Time, most int) []Ending {
	var out []Ending
	v.deadlines.Scan(func(d deadline) bool {
		if d.at > now.UnixNano() || len(out) == most {
			return false
		}
		if r, ok := v.tasks.Get(d.id); ok {
			out = append(out, v.ending(d.id, r, &taskv1.Expired{State: r.Task.State, Deadline: r.Task.Deadline}))
		}
		return true
	})
	return out
}

// causeOf gives the fact because of which a queued task must end: the last one about its instance, or its server.
func (v *View) causeOf(r *dispatcherv1.TaskRecord) uint64 {
	if c, ok := v.endOf(r).(*taskv1.Cancelled); ok && c.Withdrawn {
		p, _ := v.progress.Get(r.Task.IntentId)
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

// NextDeadline gives when the next open task is overdue; false when none will be.
func (v *View) NextDeadline() (time.Time, bool) {
	d, ok := v.deadlines.Min()
	return time.Unix(0, d.at), ok
}

// Admission is a task that may go.
type Admission struct {
	ID, Intent string
	Cause      uint64            // the sequence of the last fact on its key
	Refused    *taskv1.Cancelled // how it ends instead when its server's document has no room for it, or nil
	Extra      time.Duration     // how much longer than others it may be under way, as its images' own limits need
}

// Admissions gives the tasks that may go now under a limit, at most most.
func (v *View) Admissions(concurrency, most int) (tasks []Admission) {
	ids := admission.Limit(func(yield func(uint64, string) bool) { v.ready.Scan(yield) }, v.underWay, concurrency, most)
	room := v.newRoom()
	for _, id := range ids {
		r, _ := v.tasks.Get(id)
		a := Admission{ID: id, Intent: r.GetTask().GetIntentId(), Cause: v.tasks.Sequence(id)}
		a.Refused = room.take(r)
		a.Extra = deadlines.Extra(v.manifest(r.GetTask().GetTo().GetId()).GetRun(), v.manifest(r.GetTask().GetFrom().GetId()).GetRun())
		tasks = append(tasks, a)
	}
	return tasks
}

// UnderWay gives how many tasks are assigned or running.
func (v *View) UnderWay() int { return v.underWay }

// Task gives a task as it is, the sequence of the last fact on its key, and whether it is known.
func (v *View) Task(id string) (*taskv1.Task, uint64, bool) {
	r, ok := v.tasks.Get(id)
	if !ok {
		return nil, v.tasks.Sequence(id), false
	}
	return proto.CloneOf(r.Task), v.tasks.Sequence(id), true
}

// Server gives what is known of a server.
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
	rows := document.Rows{ServerID: server, Server: s, Manifest: v.manifest}
	for _, i := range v.instanceOf[server] {
		rows.Instances = append(rows.Instances, i)
	}
	for _, r := range v.openOf[server] {
		if task.UnderWay(r.Task.State) {
			rows.UnderWay = append(rows.UnderWay, r.Task)
		}
	}
	return document.Project(rows), true
}

func (v *View) manifest(image string) *imagev1.Manifest {
	r, _ := v.images.Get(image)
	return r.GetManifest()
}
