package failover

import (
	"context"
	"time"

	"github.com/garrison-fleet/garrison/e2e/fleet"
)

// guarded does something until it is done, or a server of the bus ended by itself: then its error has the end of that
// server's log, and what else failed because of it is left out.
func guarded(ctx context.Context, f *fleet.Fleet, do func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for f.MemberEnded() == nil {
			select {
			case <-ctx.Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
		cancel()
	}()
	err := do(ctx)
	if ended := f.MemberEnded(); ended != nil {
		return ended
	}
	return err
}
