package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/listing"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// The exit codes. They are part of the interface and never change.
const (
	ExitOK          = 0
	ExitError       = 1
	ExitUsage       = 2
	ExitDifferent   = 3
	ExitDenied      = 4
	ExitPartly      = 5
	ExitHalted      = 6
	ExitTimeout     = 7
	ExitConflict    = 8
	ExitInterrupted = 130
)

// ExitCodesText is the help topic exit-codes.
const ExitCodesText = `Exit codes:

  0    ok; also of rollout plan, and of any dry run but that of apply
  1    error: nothing was done, or the result is unknown
  2    usage: the command line is wrong; no request was sent
  3    differences exist (check, apply --dry-run, env diff, rollout show --replay, bus, versions --check)
  4    not allowed
  5    partly done: some tasks or changes succeeded, some failed; a rollout that succeeded
       left servers of its plan out, owes some the change, or broke some; exposed: images are
  6    a rollout halted itself
  7    a wait timed out; the work continues
  8    conflict: the object exists, is in use, or changed meanwhile
  130  interrupted; the work continues`

// UsageError reports a wrong command line.
type usageError struct{ text string }

// Error implements error.
func (e usageError) Error() string { return e.text }

// Usage returns an error for a wrong command line, with exit code 2.
func Usage(format string, args ...any) error { return usageError{fault.Messagef(format, args...)} }

// Exit is an error with an exit code of its own. A quiet one has been printed already.
type Exit struct {
	Code  int
	Err   error
	Quiet bool
}

// Error implements error.
func (e Exit) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e Exit) Unwrap() error { return e.Err }

// Ended returns an exit whose reason has been printed already.
func Ended(code int) error {
	if code == ExitOK {
		return nil
	}
	return Exit{Code: code, Err: fmt.Errorf("exit code %d", code), Quiet: true}
}

// CodeOf returns the exit code for an error.
func CodeOf(err error) int {
	if err == nil {
		return ExitOK
	}
	if e, ok := errors.AsType[Exit](err); ok {
		return e.Code
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return ExitUsage
	}
	if _, ok := errors.AsType[*listing.ColumnError](err); ok {
		return ExitUsage
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok && errors.Is(err, fs.ErrNotExist) {
		return ExitUsage // a file that the command line names
	}
	if errors.Is(err, context.Canceled) {
		return ExitInterrupted
	}
	switch fault.KindOf(err) {
	case fault.Denied:
		return ExitDenied
	case fault.Conflict:
		return ExitConflict
	}
	return ExitError
}

// LineOf returns an error as one line, and a line for each of several faults. A service's refusal stays as the service
// wrote it.
func LineOf(err error) string {
	if errors.Is(err, context.Canceled) {
		return "garrison: interrupted"
	}
	if r := fault.RefusalOf(err); r != nil {
		if r.GetComponent() == "" {
			return "garrison: " + fault.Text(r)
		}
		return fault.Text(r)
	}
	text := err.Error()
	if strings.HasPrefix(text, "garrison ") || strings.HasPrefix(text, "garrison:") { // it already names the command
		return text
	}
	return "garrison: " + text
}

// PrintFaults prints a refusal that lists faults as data, where the output is a document.
func PrintFaults(env *Env, err error) {
	r := fault.RefusalOf(err)
	if len(r.GetFaults()) == 0 {
		return
	}
	switch format := env.Output.Format; format {
	case output.FormatJSON, output.FormatYAML:
		_ = env.Output.PrintDocument(format, r) // the error is printed already
	}
}

// FirstError returns the first error that is not nil.
func FirstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Refuse returns a refusal of the command line itself.
func Refuse(kind fault.Kind, r *apiv1.Refusal) error { return fault.Refuse(kind, r) }
