package view

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tidwall/btree"
	"google.golang.org/protobuf/proto"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/admission"
)

// Filter says which tasks are meant. Everything that is set must hold.
type Filter struct {
	Intent, Server, Agent string
	States                []taskv1.State
	Before                uint64 // only tasks queued before this place; 0 means all
	Limit                 int
}

func (f Filter) matches(t *taskv1.Task) bool {
	return (f.Intent == "" || t.IntentId == f.Intent) && (f.Server == "" || t.ServerId == f.Server) &&
		(f.Agent == "" || t.Agent == f.Agent) && (len(f.States) == 0 || slices.Contains(f.States, t.State))
}

// lists names the lists of which every task that is meant is in one: the shortest that there is.
func (v *View) listsFor(f Filter) []string {
	candidates := [][]string{{""}}
	for name, set := range map[string]bool{inIntent(f.Intent): f.Intent != "", inServer(f.Server): f.Server != "", inAgent(f.Agent): f.Agent != ""} {
		if set {
			candidates = append(candidates, []string{name})
		}
	}
	if len(f.States) > 0 {
		var names []string
		for _, s := range f.States {
			names = append(names, inState(s))
		}
		candidates = append(candidates, slices.Compact(slices.Sorted(slices.Values(names))))
		if f.Intent != "" {
			candidates = append(candidates, intentStates(f.Intent, f.States))
		}
	}
	return slices.MinFunc(candidates, func(a, b []string) int { return cmp.Compare(v.length(a), v.length(b)) })
}

func intentStates(intent string, states []taskv1.State) []string {
	var names []string
	for _, s := range slices.Compact(slices.Sorted(slices.Values(states))) {
		names = append(names, inIntentState(intent, s))
	}
	return names
}

func (v *View) length(lists []string) int {
	n := 0
	for _, name := range lists {
		if l := v.lists[name]; l != nil {
			n += l.Len()
		}
	}
	return n
}

// List gives the tasks that are meant, the newest first, and the place of the last one
// when there are more.
func (v *View) List(f Filter) (tasks []*taskv1.Task, next uint64) {
	var found []*dispatcherv1.TaskRecord
	for _, name := range v.listsFor(f) {
		if l := v.lists[name]; l != nil {
			found = append(found, v.newest(l, f)...)
		}
	}
	slices.SortFunc(found, func(a, b *dispatcherv1.TaskRecord) int { return cmp.Compare(b.QueuedSequence, a.QueuedSequence) })
	if len(found) > f.Limit {
		found = found[:f.Limit]
		next = found[f.Limit-1].QueuedSequence
	}
	for _, r := range found {
		tasks = append(tasks, v.Explained(r))
	}
	return tasks, next
}

// newest gives the newest tasks of a list that are meant, one more than asked for if there are.
func (v *View) newest(l *btree.Map[uint64, string], f Filter) []*dispatcherv1.TaskRecord {
	from := uint64(1<<64 - 1)
	if f.Before > 0 {
		from = f.Before - 1
	}
	var out []*dispatcherv1.TaskRecord
	l.Descend(from, func(_ uint64, id string) bool {
		if r, ok := v.tasks.Get(id); ok && f.matches(r.Task) {
			out = append(out, r)
		}
		return len(out) <= f.Limit
	})
	return out
}

// Explained gives a copy of a task in which a queued one says what it waits for.
func (v *View) Explained(r *dispatcherv1.TaskRecord) *taskv1.Task {
	t := proto.CloneOf(r.Task)
	if t.State != taskv1.State_STATE_QUEUED {
		return t
	}
	tasks, records := v.forAdmission(t.ServerId)
	reasons := admission.Judge(v.serverForAdmission(t.ServerId), tasks, v.agentForAdmission)
	for n, r := range records {
		if r.Task.Id == t.Id {
			t.Reason = reasons[n]
		}
	}
	return t
}

// Known gives the tasks whose id starts with prefix, up to most.
func (v *View) Known(prefix string, most int) []*dispatcherv1.TaskRecord {
	if r, ok := v.tasks.Get(prefix); ok {
		return []*dispatcherv1.TaskRecord{r}
	}
	var out []*dispatcherv1.TaskRecord
	for id, r := range v.tasks.All() {
		if strings.HasPrefix(id, prefix) {
			if out = append(out, r); len(out) == most {
				break
			}
		}
	}
	return out
}

// Counts gives how many open tasks, ended tasks and servers the view holds.
func (v *View) Counts() (open, ended, servers int) {
	ended = v.succeeded.Len() + v.otherwise.Len()
	return v.tasks.Len() - ended, ended, v.servers.Len()
}

// Dropped reports whether ended tasks may have left the view.
func (v *View) Dropped() bool { return max(v.succeeded.Len(), v.otherwise.Len()) >= v.keepEnded }

// ServerNear gives the first server, in the order of ids, that starts with prefix.
func (v *View) ServerNear(prefix string) string {
	near := ""
	for id := range v.servers.All() {
		if strings.HasPrefix(id, prefix) && (near == "" || id < near) {
			near = id
		}
	}
	return near
}
