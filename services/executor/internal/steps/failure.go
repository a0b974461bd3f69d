package steps

import (
	"context"
	"errors"
	"strings"
	"syscall"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
)

// refuse returns a refusal of the change.
func refuse(why, format string, args ...any) error {
	return fault.Refusef(fault.Invalid, why, format, args...)
}

// Failure returns where and why a change failed, with a stable code.
func Failure(step taskv1.Step, err error) *change.Failure {
	f := &change.Failure{Step: step, Code: code.Internal, Reason: change.OneLine(err)}
	switch r := fault.RefusalOf(err); {
	case r != nil:
		f.Code, f.Reason = r.GetCode(), strings.ToValidUTF8(r.GetMessage(), "?")
	case errors.Is(err, syscall.ENOSPC):
		f.Code = code.NoSpace
	case errors.Is(err, context.DeadlineExceeded):
		f.Code = code.TimedOut
	}
	return f
}
