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
	"sync"
	"syscall"

	"golang.org/x/sync/errgroup"
)

// Part is one part of a process. Run blocks until ctx is done or the part fails.
type Part struct {
	Name string
	Run  func(ctx context.Context) error
	Base bool // the other parts need it to finish what they have begun, so it is stopped once they have returned
}

// ErrDone is returned by a part whose work is complete and that ends the group without an error.
var ErrDone = errors.New("done")

// Run runs the parts until ctx is done or one of them returns, then stops the others and
// waits for them, for those of the base last. It returns the first error that is neither a cancellation nor ErrDone.
func Run(ctx context.Context, parts ...Part) error {
	base, stopBase := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBase()
	g, ctx := errgroup.WithContext(ctx)
	var others sync.WaitGroup
	for _, p := range parts {
		if !p.Base {
			others.Add(1)
		}
	}
	go func() { others.Wait(); <-ctx.Done(); stopBase() }()
	for _, p := range parts {
		ctx := ctx
		if p.Base {
			ctx = base
		}
		g.Go(func() error {
			if !p.Base {
				defer others.Done()
			}
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
