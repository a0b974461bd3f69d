package view

import (
	"cmp"
	"slices"

	"github.com/tidwall/btree"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/fold"
)

// taskLists lists tasks by server, agent, intent and state, in the order of the queue.
type taskLists struct {
	tasks  *fold.Table[*dispatcherv1.TaskRecord]
	byName map[string]*btree.Map[uint64, string] // task ids by queued sequence; see listsOf
}

func newTaskLists(tasks *fold.Table[*dispatcherv1.TaskRecord]) *taskLists {
	return &taskLists{tasks: tasks, byName: map[string]*btree.Map[uint64, string]{}}
}

// listsOf returns the names of the lists that hold a task in each state.
func listsOf(t *taskv1.Task) []string {
	lists := []string{"", inServer(t.ServerId)}
	if t.Agent != "" {
		lists = append(lists, inAgent(t.Agent))
	}
	if t.IntentId != "" {
		lists = append(lists, inIntent(t.IntentId))
	}
	return lists
}

// stateListsOf returns the names of the lists that hold a task in its state.
func stateListsOf(t *taskv1.Task) []string {
	if t.IntentId == "" {
		return []string{inState(t.State)}
	}
	return []string{inState(t.State), inIntentState(t.IntentId, t.State)}
}

func inServer(id string) string     { return "server/" + id }
func inAgent(name string) string    { return "agent/" + name }
func inIntent(id string) string     { return "intent/" + id }
func inState(s taskv1.State) string { return "state/" + s.String() }
func inIntentState(id string, s taskv1.State) string {
	return "intent/" + id + "/" + s.String()
}

// add adds a task to all of its lists.
func (l *taskLists) add(id string, r *dispatcherv1.TaskRecord) {
	l.put(listsOf(r.Task), id, r)
	l.enterState(id, r)
}

// remove removes a task from all of its lists.
func (l *taskLists) remove(r *dispatcherv1.TaskRecord) {
	l.drop(listsOf(r.Task), r)
	l.leaveState(r)
}

// enterState adds a task to the lists of its state, and leaveState removes it from them: a task changes no other lists.
func (l *taskLists) enterState(id string, r *dispatcherv1.TaskRecord) {
	l.put(stateListsOf(r.Task), id, r)
}

func (l *taskLists) leaveState(r *dispatcherv1.TaskRecord) { l.drop(stateListsOf(r.Task), r) }

func (l *taskLists) put(names []string, id string, r *dispatcherv1.TaskRecord) {
	for _, name := range names {
		list := l.byName[name]
		if list == nil {
			list = &btree.Map[uint64, string]{}
			l.byName[name] = list
		}
		list.Set(r.QueuedSequence, id)
	}
}

func (l *taskLists) drop(names []string, r *dispatcherv1.TaskRecord) {
	for _, name := range names {
		list := l.byName[name]
		if list == nil {
			continue
		}
		if list.Delete(r.QueuedSequence); list.Len() == 0 {
			delete(l.byName, name)
		}
	}
}

// shortest returns the names of lists that together hold every task of the filter, and fewest others.
func (l *taskLists) shortest(f Filter) []string {
	candidates := [][]string{{""}}
	if f.Intent != "" {
		candidates = append(candidates, []string{inIntent(f.Intent)})
	}
	if f.Intents != nil {
		candidates = append(candidates, namesOf(f.Intents, inIntent))
	}
	if f.Server != "" {
		candidates = append(candidates, []string{inServer(f.Server)})
	}
	if f.Servers != nil {
		candidates = append(candidates, namesOf(f.Servers, inServer))
	}
	if f.Agent != "" {
		candidates = append(candidates, []string{inAgent(f.Agent)})
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
	return slices.MinFunc(candidates, func(a, b []string) int { return cmp.Compare(l.length(a), l.length(b)) })
}

// namesOf returns the names of the lists of ids.
func namesOf(ids map[string]bool, name func(id string) string) (names []string) {
	for id := range ids {
		names = append(names, name(id))
	}
	return names
}

func intentStates(intent string, states []taskv1.State) []string {
	var names []string
	for _, s := range slices.Compact(slices.Sorted(slices.Values(states))) {
		names = append(names, inIntentState(intent, s))
	}
	return names
}

func (l *taskLists) length(lists []string) int {
	n := 0
	for _, name := range lists {
		if list := l.byName[name]; list != nil {
			n += list.Len()
		}
	}
	return n
}

// page returns the tasks of a filter, the newest first, and, when there are more, the sequence of the
// last one.
func (l *taskLists) page(f Filter) (found []*dispatcherv1.TaskRecord, next uint64) {
	for _, name := range l.shortest(f) {
		if list := l.byName[name]; list != nil {
			found = append(found, l.newest(list, f)...)
		}
	}
	slices.SortFunc(found,
		func(a, b *dispatcherv1.TaskRecord) int { return cmp.Compare(b.QueuedSequence, a.QueuedSequence) })
	if len(found) > f.Limit {
		found = found[:f.Limit]
		next = found[f.Limit-1].QueuedSequence
	}
	return found, next
}

// newest returns the newest tasks of a list that match, up to one more than the limit.
func (l *taskLists) newest(list *btree.Map[uint64, string], f Filter) []*dispatcherv1.TaskRecord {
	from := uint64(1<<64 - 1)
	if f.Before > 0 {
		from = f.Before - 1
	}
	var out []*dispatcherv1.TaskRecord
	list.Descend(from, func(_ uint64, id string) bool {
		if r, ok := l.tasks.Get(id); ok && f.matches(r.Task) {
			out = append(out, r)
		}
		return len(out) <= f.Limit
	})
	return out
}

// oldest returns the tasks of lists that were queued first.
func (l *taskLists) oldest(lists []string, most int) []*dispatcherv1.TaskRecord {
	var found []*dispatcherv1.TaskRecord
	for _, name := range lists {
		list := l.byName[name]
		if list == nil {
			continue
		}
		n := 0
		list.Scan(func(_ uint64, id string) bool {
			if r, ok := l.tasks.Get(id); ok {
				found = append(found, r)
			}
			n++
			return n < most
		})
	}
	slices.SortFunc(found, byQueue)
	return found[:min(most, len(found))]
}

func byQueue(a, b *dispatcherv1.TaskRecord) int {
	switch {
	case a.QueuedSequence < b.QueuedSequence:
		return -1
	case a.QueuedSequence > b.QueuedSequence:
		return 1
	}
	return 0
}
