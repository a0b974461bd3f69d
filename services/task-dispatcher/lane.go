package dispatcher

import (
	"context"
	"time"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

const (
	// never is the answer of a pass after which only the ledger wakes its lane.
	never = time.Duration(-1)
	// conflictPatience bounds how long a lane waits for the fact that it lost against.
	conflictPatience = time.Second
	// The waits after an error that is not a conflict, such as a bus that is away.
	firstBackoff, lastBackoff = 100 * time.Millisecond, 5 * time.Second
)

// pass does what there is to do now and says when to look again even if the ledger does not move: 0 means at once.
type pass func(ctx context.Context) (next time.Duration, err error)

// lane makes the channel that wakes one lane. It holds one wake-up, so that many count as one.
func (d *Dispatcher) lane() <-chan struct{} {
	kick := make(chan struct{}, 1)
	d.kicks = append(d.kicks, kick)
	return kick
}

// kick wakes every lane.
func (d *Dispatcher) kick() {
	for _, k := range d.kicks {
		select {
		case k <- struct{}{}:
		default:
		}
	}
}

// repeat runs a lane: a full look when the view is ready, and another whenever the ledger moved.
func (d *Dispatcher) repeat(ctx context.Context, name string, kick <-chan struct{}, look pass) error {
	if !d.ready(ctx) {
		return nil
	}
	backoff := firstBackoff
	for ctx.Err() == nil {
		moved := d.fold.Changed() // taken before the look, so that no move is missed
		next, err := look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case fault.Is(err, fault.Conflict): // another dispatcher was faster: look again at what it did
			wait(ctx, moved, conflictPatience)
		case err != nil:
			d.Log.Warn().Err(err).Str("lane", name).Msg("pass interrupted")
			wait(ctx, nil, backoff)
			backoff = min(2*backoff, lastBackoff)
			continue
		case next != 0:
			wait(ctx, kick, next)
		}
		backoff = firstBackoff
	}
	return nil
}

// wait waits for a wake-up, for at most that long unless it is never.
func wait(ctx context.Context, wake <-chan struct{}, most time.Duration) {
	var timeout <-chan time.Time
	if most != never {
		t := time.NewTimer(most)
		defer t.Stop()
		timeout = t.C
	}
	select {
	case <-wake:
	case <-timeout:
	case <-ctx.Done():
	}
}
