// Package task is what the registry keeps of tasks: the open ones, so that an instance
// can say where its change is. The task-dispatcher owns the noun.
//
// Guarantee: a task has one end; a fact behind it does not fit.
package task

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/fsm"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// Moves says which facts fit in which state. A report may skip started.
var Moves = fsm.Table[taskv1.State, string]{
	taskv1.State_STATE_UNSPECIFIED: {"queued": taskv1.State_STATE_QUEUED},
	taskv1.State_STATE_QUEUED: {
		"assigned": taskv1.State_STATE_ASSIGNED, "cancelled": taskv1.State_STATE_CANCELLED,
		"expired": taskv1.State_STATE_EXPIRED, "superseded": taskv1.State_STATE_SUPERSEDED,
	},
	taskv1.State_STATE_ASSIGNED: {
		"started": taskv1.State_STATE_RUNNING, "succeeded": taskv1.State_STATE_SUCCEEDED,
		"failed": taskv1.State_STATE_FAILED, "undone": taskv1.State_STATE_UNDONE, "expired": taskv1.State_STATE_EXPIRED,
	},
	taskv1.State_STATE_RUNNING: {
		"succeeded": taskv1.State_STATE_SUCCEEDED, "failed": taskv1.State_STATE_FAILED,
		"undone": taskv1.State_STATE_UNDONE, "expired": taskv1.State_STATE_EXPIRED,
	},
	taskv1.State_STATE_SUCCEEDED:  {},
	taskv1.State_STATE_FAILED:     {},
	taskv1.State_STATE_UNDONE:     {},
	taskv1.State_STATE_CANCELLED:  {},
	taskv1.State_STATE_EXPIRED:    {},
	taskv1.State_STATE_SUPERSEDED: {},
}

// Ended says whether a task is at its end.
func Ended(t *taskv1.Task) bool { return Moves.End(t.GetState()) }

// Apply folds a fact into the task's row, which may be nil. A fact that does not fit
// gives false, and the row is as it was.
func Apply(t *taskv1.Task, f ledger.Fact) (*taskv1.Task, bool) {
	next, ok := Moves.Next(t.GetState(), f.Name())
	if !ok {
		return t, false
	}
	if b, ok := f.Body.(*taskv1.Queued); ok {
		t = &taskv1.Task{
			Id: f.Key, Verb: b.Verb, ServerId: b.ServerId, Agent: b.Agent, InstanceId: b.InstanceId,
			Generation: b.Generation, Attempt: b.Attempt, From: b.From, To: b.To, IntentId: b.IntentId,
		}
	}
	t.State, t.Since, t.Reason = next, timestamppb.New(f.At), reason(f)
	return t, true
}

func reason(f ledger.Fact) string {
	switch b := f.Body.(type) {
	case *taskv1.Failed:
		return because("the last change failed", b.Outcome)
	case *taskv1.Undone:
		return because("the last change was undone", b.Outcome)
	case *taskv1.Cancelled:
		return because("the last change was cancelled", &taskv1.Outcome{Code: b.Code, Reason: b.Reason})
	case *taskv1.Expired:
		return "the last change was not done before its deadline"
	}
	return ""
}

func because(what string, o *taskv1.Outcome) string {
	switch {
	case o.GetCode() != "" && o.GetReason() != "":
		return what + ": " + o.Code + ": " + o.Reason
	case o.GetCode()+o.GetReason() != "":
		return what + ": " + o.Code + o.Reason
	}
	return what
}
