package bus

import (
	"context"
	"fmt"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// ErrDryRun is the error of a write in a dry run, and of a call that would have written. The call was checked as any
// other, up to its first write.
var ErrDryRun = fault.New(fault.Invalid, "a dry run records nothing")

// ErrUnchanged is the ErrDryRun of a call that would write nothing: everything is as requested already.
var ErrUnchanged = fmt.Errorf("nothing would change: %w", ErrDryRun)

// headerDryRun marks a call of a dry run, and the answer to one that would have written.
const headerDryRun = "Garrison-Dry-Run"

type dryRun struct{}

// WithDryRun returns a context under which nothing is stored: a service checks a call as any other, and what would
// store something returns ErrDryRun.
func WithDryRun(ctx context.Context) context.Context { return context.WithValue(ctx, dryRun{}, true) }

// IsDryRun reports whether a context is of a dry run.
func IsDryRun(ctx context.Context) bool { return ctx.Value(dryRun{}) != nil }

// CheckStores returns ErrDryRun in a dry run.
func CheckStores(ctx context.Context) error {
	if IsDryRun(ctx) {
		return ErrDryRun
	}
	return nil
}
