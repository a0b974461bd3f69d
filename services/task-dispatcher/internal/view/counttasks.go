package view

import (
	"cmp"
	"slices"
	"strings"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// CountFields are the fields by which tasks are counted, by name.
var CountFields = map[string]func(*taskv1.Task) string{
	"state": func(t *taskv1.Task) string { return word(t.State.String(), "STATE_") },
	"verb":  func(t *taskv1.Task) string { return word(t.Verb.String(), "VERB_") },
	"agent": (*taskv1.Task).GetAgent,
}

// word returns the word of an enum's value: queued for STATE_QUEUED.
func word(name, prefix string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, prefix)), "_", "-")
}

// Count counts the tasks of a filter by the values of fields, which must be among CountFields, and returns the largest
// top groups. A count by state alone reads the lengths of lists.
func (l *Listing) Count(f Filter, by []string, top int) *dispatcherv1.CountTasksResponse {
	groups := map[string]*dispatcherv1.TaskGroup{}
	add := func(values []string, n int) {
		key := strings.Join(values, "\x00")
		if groups[key] == nil {
			groups[key] = &dispatcherv1.TaskGroup{Values: values}
		}
		groups[key].Count += uint64(n)
	}
	if slices.Equal(by, []string{"state"}) && f.Intent+f.Server+f.Agent == "" && f.Intents == nil &&
		f.Servers == nil && f.Only == nil {
		l.lists.eachState(f.States, func(s taskv1.State, n int) { add([]string{word(s.String(), "STATE_")}, n) })
	} else {
		l.lists.each(f, func(t *taskv1.Task) {
			values := make([]string, len(by))
			for n, field := range by {
				values[n] = CountFields[field](t)
			}
			add(values, 1)
		})
	}
	return largest(groups, len(by) > 0, top)
}

// largest returns the largest groups, and counts the others together.
func largest(groups map[string]*dispatcherv1.TaskGroup, grouped bool, top int) *dispatcherv1.CountTasksResponse {
	r := &dispatcherv1.CountTasksResponse{}
	all := make([]*dispatcherv1.TaskGroup, 0, len(groups))
	for _, g := range groups {
		r.Total += g.Count
		all = append(all, g)
	}
	if !grouped {
		return r
	}
	slices.SortFunc(all, func(a, b *dispatcherv1.TaskGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), slices.Compare(a.Values, b.Values))
	})
	r.Groups = all[:min(top, len(all))]
	for _, g := range all[len(r.Groups):] {
		r.OtherGroups++
		r.Others += g.Count
	}
	return r
}

// eachState calls f with the number of tasks in each state that has any; states limits them, unless it is empty.
func (l *taskLists) eachState(states []taskv1.State, f func(taskv1.State, int)) {
	for number := range taskv1.State_name {
		s := taskv1.State(number)
		if n := l.length([]string{inState(s)}); n > 0 && (len(states) == 0 || slices.Contains(states, s)) {
			f(s, n)
		}
	}
}

// each calls f with every task of a filter, in no order.
func (l *taskLists) each(f Filter, call func(*taskv1.Task)) {
	for _, name := range l.shortest(f) {
		list := l.byName[name]
		if list == nil {
			continue
		}
		list.Scan(func(_ uint64, id string) bool {
			if r, ok := l.tasks.Get(id); ok && f.matches(r.Task) {
				call(r.Task)
			}
			return true
		})
	}
}
