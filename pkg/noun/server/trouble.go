package server

import (
	"cmp"

	"github.com/garrison-fleet/garrison/pkg/code"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// Trouble returns the code of why a server that is believed does not follow its document as it should: two machines
// beat as it, or what its executor says of itself. It returns "" when there is nothing of the kind, and for an executor
// that waits for the end of a critical section.
func Trouble(s *serverv1.Server) string {
	c := s.GetCondition()
	switch {
	case !Believed(s):
		return ""
	case s.GetDuplicate() != nil:
		return code.DuplicateIdentity
	case c.GetState() == serverv1.ExecutorState_EXECUTOR_STATE_BUSY:
		return ""
	case c.GetState() == serverv1.ExecutorState_EXECUTOR_STATE_SUSPENDED:
		return cmp.Or(c.GetCode(), code.ExecutorSuspended)
	}
	return c.GetCode()
}
