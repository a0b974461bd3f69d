// Package task is the life of the noun task: its states, the facts that move it, and the fold of
// those facts into a record. The task-dispatcher writes the noun; every service that folds tasks
// takes its rules from here.
//
//	next, fit := task.Apply(previous, fact) // nil before the first fact
//
// Guarantees:
//
//  1. Life is one table. A fact that is not in the row of a task's state changes nothing.
//  2. A task has one end. The fact reported-late completes the record of an expired task, once,
//     and leaves it expired.
//  3. Apply has no clock and no I/O: the same facts produce the same record.
//
// The fact claimed has the noun task in its subject and is about no task: it fits nowhere.
package task

import (
	"github.com/garrison-fleet/garrison/pkg/fsm"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// DefaultConcurrency is how many tasks of a fleet are under way at once when nothing else is configured.
const DefaultConcurrency = 20

// State is a state in a task's life.
type State string

// The states. A task is Unknown before its first fact. The last six are ends.
const (
	Unknown    State = "unknown"
	Queued     State = "queued"
	Assigned   State = "assigned"
	Running    State = "running"
	Succeeded  State = "succeeded"
	Failed     State = "failed"
	Undone     State = "undone"
	Cancelled  State = "cancelled"
	Expired    State = "expired"
	Superseded State = "superseded"
)

// OldOutput precedes the last line of the old version in the output of a task, when that version failed after the
// rollback too.
const OldOutput = "\nthe old version, after the rollback: "

// Life lists which facts can happen in which state, and the state that follows. A task that waits for nothing is
// assigned by its first fact. A server reports the start only of a task that takes longer than a second.
var Life = fsm.Table[State, string]{
	Unknown: {"queued": Queued, "assigned": Assigned},
	Queued:  {"assigned": Assigned, "cancelled": Cancelled, "expired": Expired, "superseded": Superseded},
	Assigned: {
		"started": Running, "succeeded": Succeeded, "failed": Failed, "undone": Undone, "expired": Expired,
	},
	Running: {
		"deferred": Running, "resumed": Running, "cancelled": Cancelled,
		"succeeded": Succeeded, "failed": Failed, "undone": Undone, "expired": Expired,
	},
	Expired:   {"reported-late": Expired},
	Succeeded: {}, Failed: {}, Undone: {}, Cancelled: {}, Superseded: {},
}

var states = map[taskv1.State]State{
	taskv1.State_STATE_QUEUED:     Queued,
	taskv1.State_STATE_ASSIGNED:   Assigned,
	taskv1.State_STATE_RUNNING:    Running,
	taskv1.State_STATE_SUCCEEDED:  Succeeded,
	taskv1.State_STATE_FAILED:     Failed,
	taskv1.State_STATE_UNDONE:     Undone,
	taskv1.State_STATE_CANCELLED:  Cancelled,
	taskv1.State_STATE_EXPIRED:    Expired,
	taskv1.State_STATE_SUPERSEDED: Superseded,
}

var protos = func() map[State]taskv1.State {
	out := map[State]taskv1.State{}
	for p, s := range states {
		out[s] = p
	}
	return out
}()

// StateOf returns the state that a record's state stands for; Unknown for the zero value.
func StateOf(s taskv1.State) State {
	if state, ok := states[s]; ok {
		return state
	}
	return Unknown
}

// Proto returns the state as the contract spells it; STATE_UNSPECIFIED for Unknown.
func (s State) Proto() taskv1.State { return protos[s] }

// Ended reports whether a task in s has ended: no fact moves it to another state.
func Ended(s taskv1.State) bool {
	state := StateOf(s)
	for _, next := range Life[state] {
		if next != state {
			return false
		}
	}
	return true
}

// UnderWay reports whether a task in s is assigned or running, and therefore in its server's document.
func UnderWay(s taskv1.State) bool {
	return s == taskv1.State_STATE_ASSIGNED || s == taskv1.State_STATE_RUNNING
}

// Waits reports whether a task is under way and its server deferred it: it touches nothing until it goes on.
func Waits(t *taskv1.Task) bool {
	return UnderWay(t.GetState()) && t.GetDeferral() != nil && t.GetDeferral().ResumedAt == nil
}

// AwaitsReport reports whether a task expired and its server has not reported its end since.
func AwaitsReport(t *taskv1.Task) bool {
	return t.GetState() == taskv1.State_STATE_EXPIRED && t.GetReported() == taskv1.State_STATE_UNSPECIFIED
}
