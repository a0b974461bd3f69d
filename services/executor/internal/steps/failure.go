package steps

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/visible"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
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
		f.Code, f.Reason = r.GetCode(), visible.Line(r.GetMessage())
	case errors.Is(err, syscall.ENOSPC):
		f.Code, f.Reason = code.NoSpace, noSpaceAt(err)
	case errors.Is(err, syscall.EROFS):
		f.Code = code.RootReadOnly
	case errors.Is(err, context.DeadlineExceeded):
		f.Code = code.TimedOut
	}
	return f
}

// noSpaceAt returns where a disk was full: the file, or the directory of one with a temporary name.
func noSpaceAt(err error) string {
	at, ok := errors.AsType[*fs.PathError](err)
	if !ok {
		return change.OneLine(err)
	}
	path := at.Path
	if strings.HasPrefix(filepath.Base(path), layout.TemporaryPrefix) {
		path = filepath.Dir(path)
	}
	return visible.Line(at.Err.Error() + " at " + path)
}
