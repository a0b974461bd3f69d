package view

import (
	"cmp"
	"math"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/noun/task"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/admission"
	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/opening"
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

// indexTask adds a task to every index of its state, except its lists, ready and outdated; see reviewTasks.
func (v *View) indexTask(id string, r *dispatcherv1.TaskRecord) {
	if task.Ended(r.Task.State) {
		v.ended.add(id, r)
		return
	}
	v.count(r.Task, 1)
	v.setDeadline(deadlineOf(id, r.Task))
	of := v.openOf[r.Task.ServerId]
	if of == nil {
		of = map[string]*dispatcherv1.TaskRecord{}
		v.openOf[r.Task.ServerId] = of
	}
	of[id] = r
}

// unindexTask removes a task that has not ended from every index of its state, except its lists and ready.
func (v *View) unindexTask(id string, r *dispatcherv1.TaskRecord) {
	v.count(r.Task, -1)
	v.deadlines.Delete(v.due[id])
	delete(v.due, id)
	delete(v.outdated, id)
	if of := v.openOf[r.Task.ServerId]; of != nil {
		if delete(of, id); len(of) == 0 {
			delete(v.openOf, r.Task.ServerId)
		}
	}
}

func (v *View) setDeadline(d deadline) {
	if before, ok := v.due[d.id]; ok {
		v.deadlines.Delete(before)
	}
	v.deadlines.Set(d)
	v.due[d.id] = d
}

// count counts a task that is under way, or that is no more.
func (v *View) count(t *taskv1.Task, n int) {
	if t.Ahead != nil && task.UnderWay(t.State) {
		v.ahead += n
	}
	switch {
	case task.Waits(t) || v.awaitsServer(t):
		v.waiting += n
	case task.UnderWay(t.State):
		v.underWay += n
	}
}

// recount counts the tasks under way on a server, or counts them no more, when its presence changes.
func (v *View) recount(server string, n int) {
	for _, r := range v.openOf[server] {
		v.count(r.Task, n)
	}
}

// awaitsServer reports whether a task is assigned to a server that is offline, which did not begin it.
func (v *View) awaitsServer(t *taskv1.Task) bool {
	return t.State == taskv1.State_STATE_ASSIGNED && v.OfflineSince(t.ServerId) != nil
}

// OfflineSince returns since when a server is offline; nil while it is not.
func (v *View) OfflineSince(server string) *timestamppb.Timestamp {
	s, _ := v.servers.Get(server)
	return s.GetOfflineSince()
}

// SlotsTaken returns how many slots of a limit on tasks under way are not free. A task that is deferred, or that is
// assigned to a server that is offline, needs none: it waits, perhaps for an hour, and other servers need not. But when
// it continues, it asks for none either. So as many as the limit wait without a slot, and never more than twice the
// limit are under way.
func (v *View) SlotsTaken(concurrency int) int { return v.underWay + max(0, v.waiting-concurrency) }

// isDead reports whether a server is dead or forgotten: no further report comes from it.
func (v *View) isDead(server string) bool {
	s, ok := v.servers.Get(server)
	return !ok || s.Life == serverv1.Life_LIFE_DEAD
}

// reviewTasks updates the indexes ready and outdated for one server. What is under way on a server that was given up
// is due at once.
func (v *View) reviewTasks(server string) {
	v.reviewKeep(server)
	v.ready.drop(server)
	due := v.instances.dueOn(server)
	if len(v.openOf[server])+len(due) == 0 {
		return
	}
	tasks, records := v.forAdmission(server, due)
	reasons := admission.Decide(v.serverForAdmission(server), tasks, v.agentForAdmission)
	for n, i := range due {
		if reasons[len(records)+n] == "" && !v.ranks.MayWait(i.Agent, i.Unwanted) {
			v.ready.add(dueTask(i, v.opening(i)))
		}
	}
	for n, r := range records {
		if tasks[n].UnderWay {
			if v.isDead(server) {
				v.setDeadline(deadline{id: r.Task.Id})
			}
			continue
		}
		if v.endOf(r) != nil {
			v.outdated[r.Task.Id] = true
		} else {
			delete(v.outdated, r.Task.Id)
		}
		if reasons[n] == "" {
			i, ok := v.instanceFor(r.Task)
			if !ok {
				i = nil
			}
			v.ready.add(queuedTask(r, i))
		}
	}
}

// forAdmission returns a server's open tasks with their records, in the order of the queue. The tasks of due changes,
// which are still to be opened, follow without records: an agent waits for those too.
func (v *View) forAdmission(
	server string, due []*dispatcherv1.InstanceRecord,
) ([]admission.Task, []*dispatcherv1.TaskRecord) {
	open := v.openOf[server]
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
			UnderWay: task.UnderWay(r.Task.State), Outdated: v.isOutdated(r), Ahead: r.Task.Ahead != nil,
		})
	}
	for _, i := range due {
		tasks = append(tasks, admission.Task{Agent: i.Agent, Queued: i.DecidedSequence, Removes: i.Unwanted})
	}
	return tasks, records
}

func (v *View) serverForAdmission(id string) admission.Server {
	s, _ := v.servers.Get(id)
	server := admission.Server{
		Life: s.GetLife(), Presence: s.GetPresence(), Standing: s.GetStanding(),
		Ahead: s.GetAhead(), Duplicated: s.GetDuplicated(),
	}
	if s.GetOfflineSince() != nil {
		server.Offline = s.OfflineSince.AsTime()
	}
	return server
}

func (v *View) agentForAdmission(name string) admission.Agent {
	a, _ := v.agents.Get(name)
	return admission.Agent{Tier: a.GetTier(), Dependencies: a.GetDependencies()}
}

// isOutdated reports whether the outcome of a queued task is no longer wanted, even if its
// successor is not queued yet.
func (v *View) isOutdated(r *dispatcherv1.TaskRecord) bool {
	if r.Task.State != taskv1.State_STATE_QUEUED {
		return false
	}
	if r.Task.Verb != taskv1.Verb_VERB_REFRESH {
		i, ok := v.instanceFor(r.Task)
		if !ok || i.Generation > r.Task.Generation {
			return true
		}
	}
	return v.endOf(r) != nil
}

// endOf returns the fact that must end a queued task because of facts since it was queued, or nil.
func (v *View) endOf(r *dispatcherv1.TaskRecord) endFact {
	t := r.Task
	s, _ := v.servers.Get(t.ServerId)
	if v.isDead(t.ServerId) {
		return &taskv1.Cancelled{Reason: "the server is no more"}
	}
	if i, ok := v.instanceFor(t); t.Verb != taskv1.Verb_VERB_REFRESH {
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
	return v.withdrawn(t)
}
