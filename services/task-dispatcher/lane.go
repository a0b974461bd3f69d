package dispatcher

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/rungroup"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
)

const (
	// never is the answer of a pass after which only the ledger wakes its lane.
	never = time.Duration(-1)
	// maxConflictWait bounds how long a lane waits for the fact that its own one conflicted with.
	maxConflictWait = time.Second
	// The pauses after an error that is not a conflict, such as an unreachable bus.
	firstBackoff, lastBackoff = 100 * time.Millisecond, 5 * time.Second
)

// pass does the work that is due now and returns when to run again even if the ledger does not
// move: 0 means at once, never means not at all.
type pass func(ctx context.Context) (next time.Duration, err error)

// lanes runs passes side by side, each again whenever the ledger moves.
type lanes struct {
	follower *fold.Follower
	log      zerolog.Logger
	signals  []wakeup.Signal
}

// part returns a part of the service that repeats a pass, the first time when the view is ready.
func (l *lanes) part(name string, run pass) rungroup.Part {
	signal := wakeup.New()
	l.signals = append(l.signals, signal)
	return rungroup.Part{
		Name: name,
		Run:  l.follower.WhenReady(func(ctx context.Context) error { return l.repeat(ctx, name, signal, run) }),
	}
}

// wake wakes every lane.
func (l *lanes) wake() {
	for _, s := range l.signals {
		s.Wake()
	}
}

func (l *lanes) repeat(ctx context.Context, name string, signal wakeup.Signal, run pass) error {
	backoff := firstBackoff
	for ctx.Err() == nil {
		moved := l.follower.Changed() // taken before the pass, so that no change is missed
		next, err := run(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case fault.Is(err, fault.Conflict): // another dispatcher was faster: decide on what it recorded
			wait(ctx, moved, maxConflictWait)
		case err != nil:
			l.log.Warn().Err(err).Str("lane", name).Msg("pass interrupted")
			wait(ctx, nil, backoff)
			backoff = min(2*backoff, lastBackoff)
			continue
		case next != 0:
			wait(ctx, signal.C(), next)
		}
		backoff = firstBackoff
	}
	return nil
}

// wait waits for a receive from wake, at most for a time unless that is never.
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
