package view

import (
	"cmp"
	"math"
	"slices"

	"github.com/tidwall/btree"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/noun/task"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/admission"
)

// deadline is when an open task ends by itself.
type deadline struct {
	at int64 // nanoseconds since 1970
	id string
}

func earlier(a, b deadline) bool {
	return a.at < b.at || (a.at == b.at && a.id < b.id)
}

func deadlineOf(id string, t *taskv1.Task) deadline {
	if t.Deadline == nil {
		return deadline{math.MaxInt64, id}
	}
	return deadline{t.Deadline.AsTime().UnixNano(), id}
}

// Queue is the open tasks and the changes that wait for one: what may be assigned, and what must end. Its indexes are
// derived from the tables.
type Queue struct {
	*tables
	rows  *Rows
	keeps *keeps
	indexes
}

type indexes struct {
	outdated  map[string]bool         // task ids
	ready     *readyTasks             // what may be assigned when a slot is free
	ranks     admission.Ranks         // of the agents
	underWay  int                     // how many tasks are assigned or running, and do not wait
	waiting   int                     // how many are deferred, or assigned to a server offline
	ahead     int                     // how many tasks that are under way fetch ahead
	deadlines *btree.BTreeG[deadline] // of open tasks
	due       map[string]deadline     // by task id, its key in deadlines
}

func newIndexes() indexes {
	return indexes{
		outdated: map[string]bool{}, ready: newReadyTasks(),
		deadlines: btree.NewBTreeGOptions(earlier, btree.Options{NoLocks: true}), due: map[string]deadline{},
	}
}

// add adds a task to every index of its state, except its lists, ready and outdated; see review.
func (q *Queue) add(id string, r *dispatcherv1.TaskRecord) {
	if task.Ended(r.Task.State) {
		q.ended.add(id, r)
		return
	}
	q.count(r.Task, 1)
	q.setDeadline(deadlineOf(id, r.Task))
	of := q.open[r.Task.ServerId]
	if of == nil {
		of = map[string]*dispatcherv1.TaskRecord{}
		q.open[r.Task.ServerId] = of
	}
	of[id] = r
}

// remove removes a task that has not ended from every index of its state, except its lists and ready.
func (q *Queue) remove(id string, r *dispatcherv1.TaskRecord) {
	q.count(r.Task, -1)
	q.deadlines.Delete(q.due[id])
	delete(q.due, id)
	delete(q.outdated, id)
	if of := q.open[r.Task.ServerId]; of != nil {
		if delete(of, id); len(of) == 0 {
			delete(q.open, r.Task.ServerId)
		}
	}
}

func (q *Queue) setDeadline(d deadline) {
	if before, ok := q.due[d.id]; ok {
		q.deadlines.Delete(before)
	}
	q.deadlines.Set(d)
	q.due[d.id] = d
}

// count counts a task that is under way, or that is no more.
func (q *Queue) count(t *taskv1.Task, n int) {
	if t.Ahead != nil && task.UnderWay(t.State) {
		q.ahead += n
	}
	switch {
	case task.Waits(t) || q.rows.awaitsServer(t):
		q.waiting += n
	case task.UnderWay(t.State):
		q.underWay += n
	}
}

// recount counts the tasks under way on a server, or counts them no more, when its presence changes.
func (q *Queue) recount(server string, n int) {
	for _, r := range q.open[server] {
		q.count(r.Task, n)
	}
}

// SlotsTaken returns how many slots of a limit on tasks under way are not free. A task that is deferred, or that is
// assigned to a server that is offline, needs none: it waits, perhaps for an hour, and other servers need not. But when
// it continues, it asks for none either. So as many as the limit wait without a slot, and never more than twice the
// limit are under way.
func (q *Queue) SlotsTaken(concurrency int) int { return q.underWay + max(0, q.waiting-concurrency) }

// review updates the indexes ready and outdated for one server. What is under way on a server that was given up
// is due at once.
func (q *Queue) review(server string) {
	q.keeps.review(server)
	q.ready.drop(server)
	due := q.instances.dueOn(server)
	if len(q.open[server])+len(due) == 0 {
		return
	}
	tasks, records := q.forAdmission(server, due)
	reasons := admission.Decide(q.rows.serverForAdmission(server), tasks, q.rows.agentForAdmission)
	for n, i := range due {
		if reasons[len(records)+n] == "" && !q.ranks.MayWait(i.Agent, i.Unwanted) {
			q.ready.add(dueTask(i, q.rows.opening(i)))
		}
	}
	for n, r := range records {
		if tasks[n].UnderWay {
			if q.rows.isDead(server) {
				q.setDeadline(deadline{id: r.Task.Id})
			}
			continue
		}
		if q.endOf(r) != nil {
			q.outdated[r.Task.Id] = true
		} else {
			delete(q.outdated, r.Task.Id)
		}
		if reasons[n] == "" {
			i, ok := q.rows.instanceFor(r.Task)
			if !ok {
				i = nil
			}
			q.ready.add(queuedTask(r, i))
		}
	}
}

// forAdmission returns a server's open tasks with their records, in the order of the queue. The tasks of due changes,
// which are still to be opened, follow without records: an agent waits for those too.
func (q *Queue) forAdmission(
	server string, due []*dispatcherv1.InstanceRecord,
) ([]admission.Task, []*dispatcherv1.TaskRecord) {
	open := q.open[server]
	tasks := make([]admission.Task, 0, len(open)+len(due))
	records := make([]*dispatcherv1.TaskRecord, 0, len(open))
	for _, r := range open {
		records = append(records, r)
	}
	slices.SortFunc(records,
		func(a, b *dispatcherv1.TaskRecord) int { return cmp.Compare(a.QueuedSequence, b.QueuedSequence) })
	for _, r := range records {
		tasks = append(tasks, admission.Task{
			ID: r.Task.Id, Agent: r.Task.Agent, Queued: r.QueuedSequence,
			Removes:  task.Removes(r.Task.Verb),
			UnderWay: task.UnderWay(r.Task.State), Outdated: q.isOutdated(r), Ahead: r.Task.Ahead != nil,
		})
	}
	for _, i := range due {
		tasks = append(tasks, admission.Task{Agent: i.Agent, Queued: i.DecidedSequence, Removes: i.Unwanted})
	}
	return tasks, records
}
