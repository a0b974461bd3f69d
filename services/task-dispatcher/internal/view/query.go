package view

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/noun/task"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/admission"
)

// Listing reads tasks for people.
type Listing struct {
	*tables
	rows  *Rows
	queue *Queue
}

// Filter selects tasks. All conditions that are set must hold.
type Filter struct {
	Intent, Server, Agent string
	Intents, Servers      map[string]bool // nil means all
	States                []taskv1.State
	Only                  func(*taskv1.Task) bool // nil means all
	Before                uint64                  // only tasks queued before this sequence; 0 means all
	Limit                 int
}

func (f Filter) matches(t *taskv1.Task) bool {
	return (f.Intent == "" || t.IntentId == f.Intent) && (f.Intents == nil || f.Intents[t.IntentId]) &&
		(f.Server == "" || t.ServerId == f.Server) && (f.Servers == nil || f.Servers[t.ServerId]) &&
		(f.Agent == "" || t.Agent == f.Agent) &&
		(len(f.States) == 0 || slices.Contains(f.States, t.State)) && (f.Only == nil || f.Only(t))
}

// List returns copies of the tasks of a filter, the newest first, by the sequence by which they were queued, and, when
// there are more, the sequence of the last one.
func (l *Listing) List(f Filter) (tasks iter.Seq2[string, *taskv1.Task], next uint64) {
	found, next := l.lists.page(f)
	return func(yield func(string, *taskv1.Task) bool) {
		for _, r := range found {
			if !yield(strconv.FormatUint(r.QueuedSequence, 10), l.Explained(r)) {
				return
			}
		}
	}, next
}

func (l *Listing) explained(records []*dispatcherv1.TaskRecord) (tasks []*taskv1.Task) {
	for _, r := range records {
		tasks = append(tasks, l.Explained(r))
	}
	return tasks
}

// Explained returns a copy of a task; one that waits has the reason.
func (l *Listing) Explained(r *dispatcherv1.TaskRecord) *taskv1.Task {
	t := proto.CloneOf(r.Task)
	if since := l.rows.OfflineSince(t.ServerId); since != nil && !task.Ended(t.State) {
		t.ServerOfflineSince = proto.CloneOf(since)
	}
	if t.State != taskv1.State_STATE_QUEUED {
		if t.ServerOfflineSince != nil {
			t.Reason = strings.TrimSuffix(admission.Offline(t.ServerOfflineSince.AsTime())+"; "+t.Reason, "; ")
		}
		return t
	}
	tasks, records := l.queue.forAdmission(t.ServerId, l.instances.dueOn(t.ServerId))
	reasons := admission.Decide(l.rows.serverForAdmission(t.ServerId), tasks, l.rows.agentForAdmission)
	server, _ := l.servers.Get(t.ServerId)
	for n, r := range records {
		if r.Task.Id == t.Id {
			t.Reason = cmp.Or(reasons[n], l.Site.text(t, server), l.queue.keeps.held(t))
		}
	}
	return t
}

// placesCounted bounds how far a task's place in the queue is counted: a list explains up to a thousand tasks.
const placesCounted = 1000

// Place returns the place, from 1 on, of a queued task among those that may be assigned, in the order in which they
// will be; exact is false, and the place the last one counted, for a task behind that.
func (q *Queue) Place(id string) (place int, exact bool) {
	q.ready.Scan(func(c candidate) bool {
		if place == placesCounted {
			return false
		}
		place++
		exact = c.record.Task.Id == id
		return !exact
	})
	return place, exact
}

// Known returns the tasks whose id starts with prefix, up to most.
func (l *Listing) Known(prefix string, most int) []*dispatcherv1.TaskRecord {
	if r, ok := l.tasks.Get(prefix); ok {
		return []*dispatcherv1.TaskRecord{r}
	}
	var out []*dispatcherv1.TaskRecord
	for id, r := range l.tasks.All() {
		if strings.HasPrefix(id, prefix) {
			if out = append(out, r); len(out) == most {
				break
			}
		}
	}
	return out
}

// Counts returns how many open tasks, ended tasks and servers the view holds.
func (l *Listing) Counts() (open, ended, servers int) {
	ended = l.ended.len()
	return l.tasks.Len() - ended, ended, l.servers.Len()
}

// Dropped reports whether ended tasks may have left the view.
func (l *Listing) Dropped() bool { return l.ended.full() }

// ServerNear returns the first server, in the order of ids, that starts with prefix.
func (l *Listing) ServerNear(prefix string) string {
	near := ""
	for id := range l.servers.All() {
		if strings.HasPrefix(id, prefix) && (near == "" || id < near) {
			near = id
		}
	}
	return near
}
