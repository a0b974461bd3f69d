package cli

import (
	"context"
	"errors"
	"time"
)

// Pause waits for d. It returns the cause of the context when that ends first.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// ErrWaited is the cause of a context whose --timeout passed.
var ErrWaited = errors.New("the time-out passed")

// Left prints how to return to work that continues without the view, and returns the error to exit with.
func (env *Env) Left(ctx context.Context, err error, how string) error {
	switch {
	case errors.Is(err, ErrWaited) || errors.Is(context.Cause(ctx), ErrWaited):
		env.Say("the work continues; to return: %s", how)
		return Exit{Code: ExitTimeout, Err: ErrWaited}
	case errors.Is(err, context.Canceled):
		env.Say("left the view; the work continues; to return: %s", how)
		env.Say("to cancel changes that have not begun: garrison intent cancel INTENT, or garrison task cancel TASK")
		return Ended(ExitInterrupted)
	}
	return err
}
