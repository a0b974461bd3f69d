// Package lifecycle runs the parts of a process together: the first one to return
// stops all, and Run returns when all have. The idea is oklog/run's.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"

	"golang.org/x/sync/errgroup"
)

// Part is one part of a process. Run blocks until ctx is done or it cannot go on.
type Part struct {
	Name string
	Run  func(ctx context.Context) error
}

// errStopped ends the group when a part returned without an error.
var errStopped = errors.New("stopped")

// Run runs the parts until ctx is done or one of them returns, then stops the others
// and waits for them. It gives the first error that is not a cancellation.
func Run(ctx context.Context, parts ...Part) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, p := range parts {
		g.Go(func() error {
			err := p.Run(ctx)
			if err == nil || (ctx.Err() != nil && errors.Is(err, context.Canceled)) {
				return errStopped
			}
			return fmt.Errorf("%s: %w", p.Name, err)
		})
	}
	if err := g.Wait(); !errors.Is(err, errStopped) {
		return err
	}
	return nil
}

// Signals gives a context that ends at SIGINT or SIGTERM, for mains.
func Signals() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
}
