package view

import (
	"cmp"
	"math"
	"slices"

	"github.com/tidwall/btree"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/admission"
	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/task"
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

// listsOf names the lists that a task is in.
func listsOf(t *taskv1.Task) []string {
	lists := []string{"", inServer(t.ServerId), inState(t.State)}
	if t.Agent != "" {
		lists = append(lists, inAgent(t.Agent))
	}
	if t.IntentId != "" {
		lists = append(lists, inIntent(t.IntentId), inIntentState(t.IntentId, t.State))
	}
	return lists
}

func inServer(id string) string     { return "server/" + id }
func inAgent(name string) string    { return "agent/" + name }
func inIntent(id string) string     { return "intent/" + id }
func inState(s taskv1.State) string { return "state/" + s.String() }
func inIntentState(id string, s taskv1.State) string {
	return "intent/" + id + "/" + s.String()
}

func (v *View) list(id string, r *dispatcherv1.TaskRecord) {
	for _, name := range listsOf(r.Task) {
		l := v.lists[name]
		if l == nil {
			l = &btree.Map[uint64, string]{}
			v.lists[name] = l
		}
		l.Set(r.QueuedSequence, id)
	}
}

func (v *View) unlist(id string, r *dispatcherv1.TaskRecord) {
	for _, name := range listsOf(r.Task) {
		l := v.lists[name]
		if l == nil {
			continue
		}
		if l.Delete(r.QueuedSequence); l.Len() == 0 {
			delete(v.lists, name)
		}
	}
}

// indexTask adds a task to every index that its state puts it in. ready and stale are reviewTasks's.
func (v *View) indexTask(id string, r *dispatcherv1.TaskRecord) {
	v.list(id, r)
	if task.Ended(r.Task.State) {
		v.endedLike(r.Task.State).Set(r.EndedSequence, id)
		return
	}
	if task.UnderWay(r.Task.State) {
		v.underWay++
	}
	v.deadlines.Set(deadlineOf(id, r.Task))
	of := v.openOf[r.Task.ServerId]
	if of == nil {
		of = map[string]*dispatcherv1.TaskRecord{}
		v.openOf[r.Task.ServerId] = of
	}
	of[id] = r
}

// unindexTask is its opposite, for a task that has not ended.
func (v *View) unindexTask(id string, r *dispatcherv1.TaskRecord) {
	v.unlist(id, r)
	if task.UnderWay(r.Task.State) {
		v.underWay--
	}
	v.deadlines.Delete(deadlineOf(id, r.Task))
	delete(v.stale, id)
	if of := v.openOf[r.Task.ServerId]; of != nil {
		if delete(of, id); len(of) == 0 {
			delete(v.openOf, r.Task.ServerId)
		}
	}
}

// reviewTasks keeps ready and stale for one server.
func (v *View) reviewTasks(server string) {
	for _, key := range v.readyOf[server] {
		v.ready.Delete(key)
	}
	delete(v.readyOf, server)
	open := v.openOf[server]
	if len(open) == 0 {
		return
	}
	tasks, records := v.forAdmission(server)
	reasons := admission.Judge(v.serverForAdmission(server), tasks, v.agentForAdmission)
	for n, r := range records {
		if tasks[n].UnderWay {
			continue
		}
		if v.endOf(r) != nil {
			v.stale[r.Task.Id] = true
		} else {
			delete(v.stale, r.Task.Id)
		}
		if reasons[n] == "" {
			v.ready.Set(r.QueuedSequence, r.Task.Id)
			v.readyOf[server] = append(v.readyOf[server], r.QueuedSequence)
		}
	}
}

// forAdmission gives a server's open tasks with their records, in the order of the
// queue. Behind them come, without records, the tasks that are still to be opened: they
// are opened one by one, and an agent waits also for those of which it is not the turn yet.
func (v *View) forAdmission(server string) ([]admission.Task, []*dispatcherv1.TaskRecord) {
	open := v.openOf[server]
	tasks := make([]admission.Task, 0, len(open))
	records := make([]*dispatcherv1.TaskRecord, 0, len(open))
	for _, r := range open {
		records = append(records, r)
	}
	slices.SortFunc(records, func(a, b *dispatcherv1.TaskRecord) int { return cmp.Compare(a.QueuedSequence, b.QueuedSequence) })
	for _, r := range records {
		tasks = append(tasks, admission.Task{
			ID: r.Task.Id, Agent: r.Task.Agent, Queued: r.QueuedSequence, Removes: r.Task.Verb == taskv1.Verb_VERB_REMOVE,
			UnderWay: task.UnderWay(r.Task.State), Outdated: v.outdated(r),
		})
	}
	for _, agent := range v.dueOn(server) {
		i := v.instanceOf[server][agent]
		tasks = append(tasks, admission.Task{Agent: agent, Queued: math.MaxUint64, Removes: i.Unwanted})
	}
	return tasks, records
}

// dueOn gives the agents of a server that must get a task, sorted.
func (v *View) dueOn(server string) []string {
	var agents []string
	for agent, i := range v.instanceOf[server] {
		if _, due := v.due.Get(i.DecidedSequence); due {
			agents = append(agents, agent)
		}
	}
	slices.Sort(agents)
	return agents
}

func (v *View) serverForAdmission(id string) admission.Server {
	s, _ := v.servers.Get(id)
	return admission.Server{
		Life: s.GetLife(), Presence: s.GetPresence(), Standing: s.GetStanding(), Ahead: s.GetAhead(), Twin: s.GetDuplicated(),
	}
}

func (v *View) agentForAdmission(name string) admission.Agent {
	a, _ := v.agents.Get(name)
	return admission.Agent{Tier: a.GetTier(), Dependencies: a.GetDependencies()}
}

// outdated says whether a queued task brings about what is not wanted any more, even
// if what takes its place is not queued yet.
func (v *View) outdated(r *dispatcherv1.TaskRecord) bool {
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

// endOf gives the fact with which a queued task must end because of what happened since; nil when none must.
func (v *View) endOf(r *dispatcherv1.TaskRecord) endFact {
	t := r.Task
	s, ok := v.servers.Get(t.ServerId)
	if !ok || s.Life == serverv1.Life_LIFE_DEAD {
		return &taskv1.Cancelled{Reason: "the server is no more"}
	}
	if i, ok := v.instanceFor(t); t.Verb != taskv1.Verb_VERB_REFRESH {
		switch {
		case !ok:
			return &taskv1.Cancelled{Reason: "the instance is no more"}
		case i.TaskGeneration > t.Generation:
			return &taskv1.Superseded{ByTaskId: i.TaskId}
		case i.Generation > t.Generation && task.Due(i, s) == 0:
			return &taskv1.Cancelled{Reason: "it is not wanted any more"} // and nothing will take its place
		}
	}
	if s.Life == serverv1.Life_LIFE_DYING && t.Verb != taskv1.Verb_VERB_REMOVE {
		return &taskv1.Cancelled{Reason: "the server is dying"}
	}
	return v.withdrawn(t)
}
