package view

import (
	"slices"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/task"
)

// awaited returns the intent for which an instance still needs a task; empty when it needs none.
func (w *Rows) awaited(i *dispatcherv1.InstanceRecord) string {
	if i.GetGeneration() <= i.GetTaskGeneration() { // also when there is no instance
		return ""
	}
	s, _ := w.servers.Get(i.ServerId)
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

// reviewAwaited changes a server's life and recounts the changes that need a task on it.
func (w *Rows) reviewAwaited(server string, change func()) {
	waited := map[*dispatcherv1.InstanceRecord]string{}
	for _, i := range w.instances.byServer[server] {
		waited[i] = w.awaited(i)
	}
	change()
	for i, was := range waited {
		switch now := w.awaited(i); {
		case was != "" && now == "":
			w.counts.passed(was)
		case was == "" && now != "":
			w.counts.count(now, func(n *dispatcherv1.IntentCounts) { decrement(&n.NeverOpened); n.ToOpen++ })
		}
	}
}

// applyWithdrawn marks an intent: its queued and deferred tasks end, and so do tasks that are opened from now on.
func (v *View) applyWithdrawn(f ledger.Fact) {
	r, ok := v.counts.table.Get(f.Key)
	if !ok {
		return // it has no pending change
	}
	r.WithdrawnSequence, r.WithdrawnBy = f.Sequence, f.Actor
	if refresh, ok := v.refreshes.table.Get(f.Key); ok {
		for _, server := range slices.Clone(refresh.ServerIds) {
			v.refreshes.drop(f.Key, server)
			v.counts.passed(f.Key)
		}
	}
	for _, id := range v.Rows.inState(f.Key, taskv1.State_STATE_QUEUED) {
		if t, ok := v.tasks.Get(id); ok {
			v.Queue.review(t.Task.ServerId)
		}
	}
	for _, s := range []taskv1.State{taskv1.State_STATE_ASSIGNED, taskv1.State_STATE_RUNNING} {
		for _, id := range v.Rows.inState(f.Key, s) {
			v.Rows.notWaitedFor(f, id)
		}
	}
}

// inState returns the tasks of an intent that are in a state.
func (w *Rows) inState(intent string, s taskv1.State) []string {
	l := w.lists.byName[inIntentState(intent, s)]
	if l == nil {
		return nil
	}
	return l.Values()
}

// withdrawn returns the fact that must end a queued task of a withdrawn intent, or nil.
func (w *Rows) withdrawn(t *taskv1.Task) endFact {
	r, ok := w.counts.table.Get(t.IntentId)
	if !ok || r.WithdrawnSequence == 0 {
		return nil
	}
	return &taskv1.Cancelled{Reason: "its intent was withdrawn by " + r.WithdrawnBy, Withdrawn: true}
}

// A change that is under way and no longer wanted is named in its server's document. The server ends one that it
// deferred, because it touched nothing, and rolls one back that a crash of the executor interrupted. It completes
// others.

// Unwanted returns how a deferred task ends when its server gave it up, because another change of the instance was
// decided since or its intent was withdrawn; nil while it is wanted. It must be called while the view stands still.
func (w *Rows) Unwanted(t *taskv1.Task) *taskv1.Cancelled {
	if t == nil || t.Verb == taskv1.Verb_VERB_REFRESH {
		return nil
	}
	if c, ok := w.withdrawn(t).(*taskv1.Cancelled); ok {
		c.Code, c.Reason = code.GivenUp, "it waited, and "+c.Reason
		return c
	}
	const changed = "it waited, and another change was asked for"
	if i, ok := w.instanceFor(t); !ok || i.Generation > t.Generation {
		return &taskv1.Cancelled{Code: code.GivenUp, Reason: changed}
	}
	return nil
}

// givesUp reports whether a server's document names a task as no longer wanted. One that is wanted again,
// because the change after it was withdrawn, goes on, unless its server gave it up meanwhile.
func (w *Rows) givesUp(t *taskv1.Task) bool {
	if !task.UnderWay(t.State) || w.Unwanted(t) == nil {
		return false
	}
	i, ok := w.instanceFor(t)
	return !ok || i.IntentId != t.IntentId || t.IntentId == "" || w.withdrawn(t) != nil
}

// notWaitedFor makes a server's document name a task after a fact that may have ended its wait.
func (w *Rows) notWaitedFor(f ledger.Fact, id string) {
	if r, ok := w.tasks.Get(id); ok && task.UnderWay(r.Task.State) && w.Unwanted(r.Task) != nil {
		w.documents.changed(r.Task.ServerId, f)
	}
}
