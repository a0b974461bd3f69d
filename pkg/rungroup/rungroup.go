// Package rungroup runs the parts of a process together: the first part that returns
// stops the others, and Run returns when all have. The idea is oklog/run's.
//
// Guarantees:
//
//  1. An error of Run starts with the name of the part that it came from.
//  2. A part that returns nil before its context is done ends the group with an error,
//     because a process that lost a part must not exit with 0. A part that ends the group
//     on purpose returns ErrDone.
//  3. Cancellation of the group's own context is not an error.
package rungroup

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"

	"golang.org/x/sync/errgroup"
)

// Part is one part of a process. Run blocks until ctx is done or the part fails.
type Part struct {
	Name string
	Run  func(ctx context.Context) error
}

// ErrDone is returned by a part whose work is complete and that ends the group without an error.
var ErrDone = errors.New("done")

// Run runs the parts until ctx is done or one of them returns, then stops the others and
// waits for them. It returns the first error that is neither a cancellation nor ErrDone.
func Run(ctx context.Context, parts ...Part) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, p := range parts {
		g.Go(func() error {
			err := p.Run(ctx)
			switch {
			case ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)):
				return ErrDone
			case errors.Is(err, ErrDone):
				return ErrDone
			case err == nil:
				return fmt.Errorf("%s: returned before it was stopped", p.Name)
			}
			return fmt.Errorf("%s: %w", p.Name, err)
		})
	}
	if err := g.Wait(); !errors.Is(err, ErrDone) {
		return err
	}
	return nil
}

// Signals returns a context that ends at SIGINT or SIGTERM, for mains.
func Signals() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
}
