package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
		env.Say("%s", stopping(how))
		return Ended(ExitInterrupted)
	}
	return err
}

// stopping returns how to stop work, by the command that returns to it.
func stopping(how string) string {
	if id, ok := strings.CutPrefix(how, "garrison rollout watch "); ok {
		return fmt.Sprintf("to begin nothing more: garrison rollout pause %s; to end it: garrison rollout abort %s",
			id, id)
	}
	return "to cancel changes that have not begun: garrison intent cancel INTENT, or garrison task cancel TASK"
}
