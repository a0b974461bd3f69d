package view

import (
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/task"
)

// A change that is under way and no longer wanted is named in its server's document. The server ends one that it
// deferred, because it touched nothing, and rolls one back that a crash of the executor interrupted. It completes
// others.

// Unwanted returns how a deferred task ends when its server gave it up, because another change of the instance was
// decided since or its intent was withdrawn; nil while it is wanted. It must be called while the view stands still.
func (v *View) Unwanted(t *taskv1.Task) *taskv1.Cancelled {
	if t == nil || t.Verb == taskv1.Verb_VERB_REFRESH {
		return nil
	}
	if c, ok := v.withdrawn(t).(*taskv1.Cancelled); ok {
		c.Code, c.Reason = code.GivenUp, "it waited, and "+c.Reason
		return c
	}
	const changed = "it waited, and another change was asked for"
	if i, ok := v.instanceFor(t); !ok || i.Generation > t.Generation {
		return &taskv1.Cancelled{Code: code.GivenUp, Reason: changed}
	}
	return nil
}

// givesUp reports whether a server's document names a task as no longer wanted. One that is wanted again,
// because the change after it was withdrawn, goes on, unless its server gave it up meanwhile.
func (v *View) givesUp(t *taskv1.Task) bool {
	if !task.UnderWay(t.State) || v.Unwanted(t) == nil {
		return false
	}
	i, ok := v.instanceFor(t)
	return !ok || i.IntentId != t.IntentId || t.IntentId == "" || v.withdrawn(t) != nil
}

// notWaitedFor makes a server's document name a task after a fact because of which it may not be wanted.
func (v *View) notWaitedFor(f ledger.Fact, id string) {
	if r, ok := v.tasks.Get(id); ok && task.UnderWay(r.Task.State) && v.Unwanted(r.Task) != nil {
		v.documents.changed(r.Task.ServerId, f)
	}
}
