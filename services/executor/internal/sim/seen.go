package sim

import (
	"sync/atomic"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// Seen counts what the servers of a fleet did since it was started. It is safe for concurrent use.
type Seen struct {
	Documents  atomic.Int64 // documents taken
	Refused    atomic.Int64 // documents that did not continue the history of the one before
	Unread     atomic.Int64 // attempts to read a document that failed
	Begun      atomic.Int64 // tasks and changes without a task
	Succeeded  atomic.Int64
	Undone     atomic.Int64
	Failed     atomic.Int64
	Reports    atomic.Int64 // acknowledged by the bus
	Reconnects atomic.Int64
	Ended      atomic.Int64 // servers that ended because they are dead
	Vanished   atomic.Int64 // servers that went away forever
}

func (s *Seen) ended(state taskv1.State) {
	switch state {
	case taskv1.State_STATE_SUCCEEDED:
		s.Succeeded.Add(1)
	case taskv1.State_STATE_UNDONE:
		s.Undone.Add(1)
	case taskv1.State_STATE_FAILED:
		s.Failed.Add(1)
	}
}
