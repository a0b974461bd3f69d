package view

import (
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// KeepIntents is how many intents of which nothing is to come stay counted.
const KeepIntents = 10_000

// place orders intents by the fact that ended them; one fact may end several.
type place struct {
	sequence uint64
	intent   string
}

func before(a, b place) bool {
	return a.sequence < b.sequence || (a.sequence == b.sequence && a.intent < b.intent)
}

// awaited returns the intent for which an instance still waits for a task; empty when it waits for none.
func (v *View) awaited(i *dispatcherv1.InstanceRecord) string {
	if i.GetGeneration() <= i.GetTaskGeneration() {
		return ""
	}
	s, _ := v.servers.Get(i.ServerId)
	switch s.GetLife() {
	case serverv1.Life_LIFE_INVITED, serverv1.Life_LIFE_ALIVE:
		return i.IntentId
	case serverv1.Life_LIFE_DYING:
		if i.Unwanted {
			return i.IntentId
		}
	}
	return ""
}

// count changes the counts of an intent. One that is not counted, or not any more, changes nothing.
func (v *View) count(intent string, change func(*dispatcherv1.IntentCounts)) {
	if r, ok := v.progress.Get(intent); ok {
		change(r.Counts)
		v.counted = append(v.counted, intent)
	}
}

// beginCount starts to count an intent.
func (v *View) beginCount(intent string, sequence uint64) *dispatcherv1.ProgressRecord {
	r, ok := v.progress.Get(intent)
	if !ok {
		r = &dispatcherv1.ProgressRecord{Counts: &dispatcherv1.IntentCounts{}}
		v.progress.Put(intent, r, sequence)
	}
	v.counted = append(v.counted, intent)
	return r
}

// decided counts a change that an intent asked for. waited is the intent for which the instance waited until then.
func (v *View) decided(i *dispatcherv1.InstanceRecord, waited string, sequence uint64) {
	v.passed(waited)
	if i.IntentId == "" {
		return
	}
	c := v.beginCount(i.IntentId, sequence).Counts
	if v.awaited(i) != "" {
		c.ToOpen++
	} else {
		c.NeverOpened++
	}
}

// passed counts a change that waited for a task and will never get one.
func (v *View) passed(intent string) {
	v.count(intent, func(c *dispatcherv1.IntentCounts) { take(&c.ToOpen); c.NeverOpened++ })
}

// reviewAwaited counts what a change of a server's life does to the changes that wait for a task on it.
func (v *View) reviewAwaited(server string, change func()) {
	waited := map[*dispatcherv1.InstanceRecord]string{}
	for _, i := range v.instanceOf[server] {
		waited[i] = v.awaited(i)
	}
	change()
	for i, was := range waited {
		switch now := v.awaited(i); {
		case was != "" && now == "":
			v.passed(was)
		case was == "" && now != "":
			v.count(now, func(c *dispatcherv1.IntentCounts) { take(&c.NeverOpened); c.ToOpen++ })
		}
	}
}

// opened counts a task that was queued; i is its instance before, nil when that is gone.
func (v *View) opened(q *taskv1.Queued, waited bool, i *dispatcherv1.InstanceRecord) {
	v.count(q.IntentId, func(c *dispatcherv1.IntentCounts) {
		switch {
		case q.Attempt > 1: // it takes the place of the try before it
			last := taskv1.State_STATE_EXPIRED
			if i.GetTaskGeneration() == q.Generation {
				last = i.GetTaskState()
			}
			take(counterOf(c, last))
		case waited:
			take(&c.ToOpen)
		default:
			take(&c.NeverOpened)
		}
		c.Queued++
	})
}

// recount moves a task from one state to another.
func (v *View) recount(intent string, from, to taskv1.State) {
	v.count(intent, func(c *dispatcherv1.IntentCounts) { take(counterOf(c, from)); *counterOf(c, to)++ })
}

// applyWithdrawn marks an intent: what is queued of it ends, and so does what is opened from now on.
func (v *View) applyWithdrawn(f ledger.Fact) {
	r, ok := v.progress.Get(f.Key)
	if !ok {
		return // nothing of it is to come
	}
	r.WithdrawnSequence, r.WithdrawnBy = f.Sequence, f.Actor
	if refresh, ok := v.refreshes.Get(f.Key); ok {
		for _, server := range append([]string(nil), refresh.ServerIds...) {
			v.dropRefresh(f.Key, server)
			v.passed(f.Key)
		}
	}
	l := v.lists[inIntentState(f.Key, taskv1.State_STATE_QUEUED)]
	if l == nil {
		return
	}
	for _, id := range l.Values() {
		if t, ok := v.tasks.Get(id); ok {
			v.reviewTasks(t.Task.ServerId)
		}
	}
}

// withdrawn returns the fact with which a queued task of a withdrawn intent must end; nil when it must not.
func (v *View) withdrawn(t *taskv1.Task) endFact {
	r, ok := v.progress.Get(t.IntentId)
	if !ok || r.WithdrawnSequence == 0 {
		return nil
	}
	return &taskv1.Cancelled{Reason: "its intent was withdrawn by " + r.WithdrawnBy, Withdrawn: true}
}

// countAccepted notes that an intent is decided.
func (v *View) countAccepted(f ledger.Fact, a *intentv1.Accepted) {
	if !a.GetIntent().GetDryRun() && a.Changed > 0 {
		v.beginCount(f.Key, f.Sequence).AcceptedSequence = f.Sequence
	}
}

// settleCounts notes which of the intents that a fact changed are through, and forgets those that were first.
func (v *View) settleCounts(sequence uint64) {
	for _, intent := range v.counted {
		r, ok := v.progress.Get(intent)
		if !ok {
			continue
		}
		switch open := ToCome(r.Counts) > 0; {
		case open && r.EndedSequence > 0:
			v.through.Delete(place{r.EndedSequence, intent})
			r.EndedSequence = 0
		case !open && r.EndedSequence == 0:
			r.EndedSequence = sequence
			v.through.Set(place{sequence, intent})
		}
	}
	v.counted = v.counted[:0]
	for v.through.Len() > v.keepIntents {
		oldest, _ := v.through.PopMin()
		v.progress.Forget(oldest.intent)
	}
}

// ToCome returns how many changes have not ended.
func ToCome(c *dispatcherv1.IntentCounts) uint32 {
	return c.GetToOpen() + c.GetQueued() + c.GetAssigned() + c.GetRunning()
}

// Changes returns how many changes are counted.
func Changes(c *dispatcherv1.IntentCounts) uint32 {
	return ToCome(c) + c.GetSucceeded() + c.GetUndone() + c.GetFailed() + c.GetCancelled() + c.GetExpired() +
		c.GetSuperseded() + c.GetNeverOpened()
}

// take takes one away, if there is one.
func take(n *uint32) {
	if *n > 0 {
		*n--
	}
}

// counterOf returns the counter of a state.
func counterOf(c *dispatcherv1.IntentCounts, s taskv1.State) *uint32 {
	switch s {
	case taskv1.State_STATE_QUEUED:
		return &c.Queued
	case taskv1.State_STATE_ASSIGNED:
		return &c.Assigned
	case taskv1.State_STATE_RUNNING:
		return &c.Running
	case taskv1.State_STATE_SUCCEEDED:
		return &c.Succeeded
	case taskv1.State_STATE_UNDONE:
		return &c.Undone
	case taskv1.State_STATE_FAILED:
		return &c.Failed
	case taskv1.State_STATE_CANCELLED:
		return &c.Cancelled
	case taskv1.State_STATE_SUPERSEDED:
		return &c.Superseded
	}
	return &c.Expired
}
