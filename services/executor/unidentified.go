package executor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/rungroup"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
	"github.com/garrison-fleet/garrison/services/executor/internal/engine"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/lifecycle"
	"github.com/garrison-fleet/garrison/services/executor/internal/monitor"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// unidentified keeps the agents while the identity cannot be read: a damaged or missing file is no
// reason to stop or to remove anything. It ends when the identity is readable, for example after
// another join with the same key, or with ctx.
func (x *Executor) unidentified(ctx context.Context, why error) error {
	x.cfg.Log.Error().Err(why).Msg("cannot read the identity; agents are kept, nothing else is done")
	j, err := x.openJournal("")
	if err != nil {
		return err
	}
	defer func() { _ = j.Close() }()
	var who identity.Identity
	if who.ServerID, err = j.Note(journal.NoteServer); err != nil {
		return err
	}
	log := x.cfg.Log.With().Str(logs.Server, who.ServerID).Logger()
	c, done, err := x.engineConfig(who, j, nil, log)
	if err != nil {
		return err
	}
	defer done()
	e := engine.New(c)
	w := &waiter{x: x, since: time.Now(), why: why, server: who.ServerID}
	s := x.statusWriter(e, who, w.standing, log)
	parts := []rungroup.Part{{Name: "identity", Run: w.run}, {Name: "join", Run: w.join}, {Name: "status", Run: s.Run}}
	ready, lives := supervise.Closed, alive(nil, j)
	if who.ServerID != "" { // it ran before, so there may be agents
		parts = append(parts, rungroup.Part{Name: "engine", Run: e.Run})
		ready, lives = e.Ready(), alive(e, j)
	}
	parts = append(parts, x.notifier.Watched(ready, lives)...)
	if err := rungroup.Run(ctx, parts...); err != nil {
		return err
	}
	if ctx.Err() != nil {
		s.End(x.cfg.StopAgents)
	}
	return nil
}

// waiter waits until the identity is readable.
type waiter struct {
	x      *Executor
	since  time.Time
	server string // the server that ran here before, or empty

	mu  sync.Mutex
	why error
}

const (
	// identityEvery is the time between two attempts to read it.
	identityEvery = 2 * time.Second
	// joinFirst and joinLongest bound the wait between two attempts to join.
	joinFirst   = 5 * time.Second
	joinLongest = 5 * time.Minute
)

// run returns rungroup.ErrDone when the identity is readable.
func (w *waiter) run(ctx context.Context) error {
	tick := time.NewTicker(identityEvery)
	defer tick.Stop()
	for {
		if _, err := w.x.checkedIdentity(); err == nil {
			return rungroup.ErrDone
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// join joins again with the token of this start while the identity is missing: the registry answers
// the same key as before. A damaged identity needs a person. It ends with ctx.
func (w *waiter) join(ctx context.Context) error {
	for wait := joinFirst; ; wait = min(2*wait, joinLongest) {
		if _, err := w.x.identity(); w.x.cfg.Join != nil && fault.Is(err, fault.NotFound) {
			if err := w.x.cfg.Join(ctx, w.server); err != nil && ctx.Err() == nil {
				w.x.cfg.Log.Warn().Err(err).Dur("retry_in", wait).Msg("not joined")
				w.mu.Lock()
				w.why = fmt.Errorf("%w; joining again failed: %w", w.x.lost(), err)
				w.mu.Unlock()
			}
		}
		if err := wakeup.Pause(ctx, wait); err != nil {
			return err
		}
	}
}

// lost returns the error of a missing identity.
func (x *Executor) lost() error { return fault.New(fault.NotFound, "%s has no identity", x.root) }

// standing returns the standing of an executor without an identity.
func (w *waiter) standing() monitor.Standing {
	w.mu.Lock()
	defer w.mu.Unlock()
	return monitor.Standing{
		Outcome: lifecycle.Decide(lifecycle.Facts{}), Since: w.since,
		Access: bus.Access{Login: bus.LoginUnreadable, Reason: w.why.Error(), NextTry: time.Now().Add(identityEvery)},
	}
}
