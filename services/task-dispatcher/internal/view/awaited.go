package view

import (
	"slices"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// awaited returns the intent for which an instance still needs a task; empty when it needs none.
func (v *View) awaited(i *dispatcherv1.InstanceRecord) string {
	if i.GetGeneration() <= i.GetTaskGeneration() { // also when there is no instance
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

// reviewAwaited changes a server's life and recounts the changes that need a task on it.
func (v *View) reviewAwaited(server string, change func()) {
	waited := map[*dispatcherv1.InstanceRecord]string{}
	for _, i := range v.instances.byServer[server] {
		waited[i] = v.awaited(i)
	}
	change()
	for i, was := range waited {
		switch now := v.awaited(i); {
		case was != "" && now == "":
			v.counts.passed(was)
		case was == "" && now != "":
			v.counts.count(now, func(n *dispatcherv1.IntentCounts) { decrement(&n.NeverOpened); n.ToOpen++ })
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
	for _, id := range v.inState(f.Key, taskv1.State_STATE_QUEUED) {
		if t, ok := v.tasks.Get(id); ok {
			v.reviewTasks(t.Task.ServerId)
		}
	}
	for _, s := range []taskv1.State{taskv1.State_STATE_ASSIGNED, taskv1.State_STATE_RUNNING} {
		for _, id := range v.inState(f.Key, s) {
			v.notWaitedFor(f, id)
		}
	}
}

// inState returns the tasks of an intent that are in a state.
func (v *View) inState(intent string, s taskv1.State) []string {
	l := v.lists.byName[inIntentState(intent, s)]
	if l == nil {
		return nil
	}
	return l.Values()
}

// withdrawn returns the fact that must end a queued task of a withdrawn intent, or nil.
func (v *View) withdrawn(t *taskv1.Task) endFact {
	r, ok := v.counts.table.Get(t.IntentId)
	if !ok || r.WithdrawnSequence == 0 {
		return nil
	}
	return &taskv1.Cancelled{Reason: "its intent was withdrawn by " + r.WithdrawnBy, Withdrawn: true}
}
