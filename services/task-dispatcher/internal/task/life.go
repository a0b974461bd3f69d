package task

import (
	"google.golang.org/protobuf/proto"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/fsm"
)

// State is where a task is, as people read it.
type State string

// Fact is what happens to a task: the name of a ledger fact.
type Fact string

// The states. The last six are ends.
const (
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

// The facts after the first one, queued.
const (
	WasAssigned   Fact = "assigned"
	WasStarted    Fact = "started"
	HasSucceeded  Fact = "succeeded"
	HasFailed     Fact = "failed"
	WasUndone     Fact = "undone"
	WasCancelled  Fact = "cancelled"
	HasExpired    Fact = "expired"
	WasSuperseded Fact = "superseded"
)

// Life is what can happen to a task. A report may skip started: reports can be lost
// while a server is away, and only the last one is said until it is acknowledged.
var Life = fsm.Table[State, Fact]{
	Queued: {
		WasAssigned: Assigned, WasCancelled: Cancelled, HasExpired: Expired, WasSuperseded: Superseded,
	},
	Assigned: {
		WasStarted: Running, HasSucceeded: Succeeded, HasFailed: Failed, WasUndone: Undone, HasExpired: Expired,
	},
	Running: {
		HasSucceeded: Succeeded, HasFailed: Failed, WasUndone: Undone, HasExpired: Expired,
	},
	Succeeded: {}, Failed: {}, Undone: {}, Cancelled: {}, Expired: {}, Superseded: {},
}

var states = map[taskv1.State]State{
	taskv1.State_STATE_QUEUED: Queued, taskv1.State_STATE_ASSIGNED: Assigned, taskv1.State_STATE_RUNNING: Running,
	taskv1.State_STATE_SUCCEEDED: Succeeded, taskv1.State_STATE_FAILED: Failed, taskv1.State_STATE_UNDONE: Undone,
	taskv1.State_STATE_CANCELLED: Cancelled, taskv1.State_STATE_EXPIRED: Expired, taskv1.State_STATE_SUPERSEDED: Superseded,
}

var wire = func() map[State]taskv1.State {
	out := map[State]taskv1.State{}
	for w, s := range states {
		out[s] = w
	}
	return out
}()

// StateOf reads a state from the contract; empty when it is none.
func StateOf(s taskv1.State) State { return states[s] }

// Proto writes a state as the contract does.
func (s State) Proto() taskv1.State { return wire[s] }

// FactOf names the fact that a ledger body is; empty for queued and for what is no task fact.
func FactOf(body proto.Message) Fact {
	switch body.(type) {
	case *taskv1.Assigned:
		return WasAssigned
	case *taskv1.Started:
		return WasStarted
	case *taskv1.Succeeded:
		return HasSucceeded
	case *taskv1.Failed:
		return HasFailed
	case *taskv1.Undone:
		return WasUndone
	case *taskv1.Cancelled:
		return WasCancelled
	case *taskv1.Expired:
		return HasExpired
	case *taskv1.Superseded:
		return WasSuperseded
	}
	return ""
}

// Next gives the state after a fact, and whether the fact can happen in s.
func Next(s taskv1.State, f Fact) (taskv1.State, bool) {
	next, ok := Life.Next(StateOf(s), f)
	return next.Proto(), ok
}

// Ended says whether nothing can happen to a task in s any more.
func Ended(s taskv1.State) bool { return Life.End(StateOf(s)) }

// UnderWay says whether a task in s is in its server's document.
func UnderWay(s taskv1.State) bool {
	return s == taskv1.State_STATE_ASSIGNED || s == taskv1.State_STATE_RUNNING
}
