package view

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/noun/task"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/usual"
)

const (
	// maxSamples is how many successful tasks a median is computed over.
	maxSamples = 64
	// minSamples is how many of them it takes.
	minSamples = 3
	// maxListed is how many tasks that are under way are listed, those that were queued first.
	maxListed = 1000
)

// IntentProgress is the progress of an intent.
type IntentProgress struct {
	Record   *dispatcherv1.ProgressRecord
	Tasks    []*taskv1.Task // all tasks of an intent with no more changes than rows
	UnderWay []*taskv1.Task // in the order of the queue, 1,000 at most
	Failures []*taskv1.Task // the first that ended and did not succeed
	Deferred int            // how many wait on their servers for the end of a critical section
	Offline  []*taskv1.Task // the first that have not begun because their server is offline
	Away     int            // how many those are, of the 1,000 that were queued first
}

// UnderWayStates are the states of the tasks that are assigned or running.
var UnderWayStates = []taskv1.State{taskv1.State_STATE_ASSIGNED, taskv1.State_STATE_RUNNING}

// notBegun are the states of the tasks on which no server works yet.
var notBegun = []taskv1.State{taskv1.State_STATE_QUEUED, taskv1.State_STATE_ASSIGNED}

// failures are the states of the tasks that ended and did not succeed.
var failures = []taskv1.State{
	taskv1.State_STATE_FAILED, taskv1.State_STATE_UNDONE, taskv1.State_STATE_CANCELLED,
	taskv1.State_STATE_EXPIRED, taskv1.State_STATE_SUPERSEDED,
}

// Progress returns the progress of an intent, at a cost that grows with its tasks that run rather than with its size;
// false when the intent is not counted.
func (l *Listing) Progress(intent string, rows int) (IntentProgress, bool) {
	r, ok := l.counts.table.Get(intent)
	if !ok {
		return IntentProgress{}, false
	}
	p := IntentProgress{Record: proto.CloneOf(r)}
	if int(Changes(r.Counts)) <= rows {
		p.Tasks = l.explained(l.lists.oldest([]string{inIntent(intent)}, maxListed))
	}
	p.UnderWay = l.explained(l.lists.oldest(intentStates(intent, UnderWayStates), maxListed))
	p.Failures = l.explained(l.lists.oldest(intentStates(intent, failures), rows))
	for _, r := range l.lists.oldest(intentStates(intent, notBegun), maxListed) {
		if l.rows.OfflineSince(r.Task.ServerId) == nil {
			continue
		}
		if p.Away++; p.Away <= rows {
			p.Offline = append(p.Offline, l.Explained(r))
		}
	}
	for _, id := range l.rows.inState(intent, taskv1.State_STATE_RUNNING) {
		if t, ok := l.tasks.Get(id); ok && task.Waits(t.Task) {
			p.Deferred++
		}
	}
	return p, true
}

// Usual returns the medians of the steps over the newest successful tasks of an intent. The unspecified step stands for
// the whole task, as in usual.StepTimes. A step with too few samples is missing.
func (l *Listing) Usual(intent string) map[taskv1.Step]time.Duration {
	medians := map[taskv1.Step]time.Duration{}
	succeeded := l.lists.byName[inIntentState(intent, taskv1.State_STATE_SUCCEEDED)]
	if succeeded == nil {
		return medians
	}
	took := map[taskv1.Step][]time.Duration{}
	n := 0
	succeeded.Descend(1<<64-1, func(_ uint64, id string) bool {
		r, ok := l.tasks.Get(id)
		if !ok || r.Task.AssignedAt == nil {
			return true
		}
		whole := r.Task.Since.AsTime().Sub(r.Task.AssignedAt.AsTime())
		for step, d := range usual.StepTimes(whole, r.Task.Outcome.GetSteps()) {
			took[step] = append(took[step], d)
		}
		n++
		return n < maxSamples
	})
	for step, all := range took {
		if len(all) >= minSamples {
			slices.Sort(all)
			medians[step] = all[len(all)/2]
		}
	}
	return medians
}
