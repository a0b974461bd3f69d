package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// The exit codes. They are part of the interface and never change.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitDifferent   = 3
	exitDenied      = 4
	exitPartly      = 5
	exitTimeout     = 7
	exitConflict    = 8
	exitInterrupted = 130
)

const exitCodesText = `Exit codes:

  0    ok
  1    error: nothing of what was asked was done, or it cannot be told
  2    usage: the command line is wrong; nothing was asked
  3    differences exist (versions --check)
  4    not allowed
  5    partly done: some tasks succeeded and some did not
  7    the time-out of a wait; the work goes on
  8    conflict: the world moved; look again and decide again
  130  interrupted; the work goes on`

// usageError is a command line that is wrong.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

func usage(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// exit is an error that chooses its own exit code. A quiet one was explained before.
type exit struct {
	code  int
	err   error
	quiet bool
}

func (e exit) Error() string { return e.err.Error() }
func (e exit) Unwrap() error { return e.err }

// ended is an end that was already explained.
func ended(code int) error {
	if code == exitOK {
		return nil
	}
	return exit{code: code, err: fmt.Errorf("exit code %d", code), quiet: true}
}

// codeOf gives the exit code of an error.
func codeOf(err error) int {
	if err == nil {
		return exitOK
	}
	if e, ok := errors.AsType[exit](err); ok {
		return e.code
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	if errors.Is(err, context.Canceled) {
		return exitInterrupted
	}
	switch fault.KindOf(err) {
	case fault.Denied:
		return exitDenied
	case fault.Conflict:
		return exitConflict
	}
	return exitError
}

// lineOf writes an error as one line. A service's refusal stays as the service gave it.
func lineOf(err error) string {
	if errors.Is(err, context.Canceled) {
		return "garrison: interrupted"
	}
	if r := fault.RefusalOf(err); r != nil {
		if r.GetComponent() == "" {
			return "garrison: " + fault.Line(r)
		}
		return fault.Line(r)
	}
	text := err.Error()
	if strings.HasPrefix(text, "garrison ") || strings.HasPrefix(text, "garrison:") { // it begins with the command
		return text
	}
	return "garrison: " + text
}

// refuse is a refusal by the command line itself.
func refuse(kind fault.Kind, r *apiv1.Refusal) error { return fault.Refuse(kind, r) }

// refusedIntent turns an intent's refusal, which has no kind in the ledger, into an error.
func refusedIntent(r *apiv1.Refusal) error {
	switch r.GetCode() {
	case "DENIED":
		return fault.Refuse(fault.Denied, r)
	case "CONFLICT", codeStale:
		return fault.Refuse(fault.Conflict, r)
	}
	return fault.Refuse(fault.Invalid, r)
}

// firstError gives the first that is one.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
