package executor

import (
	"context"
	"fmt"
	"sync"
	"time"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/lifecycle"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/services/executor/internal/engine"
	"github.com/garrison-fleet/garrison/services/executor/internal/fate"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

// unidentified keeps the agents while nobody can tell which server this is: a file that
// is damaged or gone is no reason to stop, and none to remove anything. It ends
// once the identity can be read, as after a new join with the same key, or with ctx.
func (x *Executor) unidentified(ctx context.Context, why error) error {
	x.cfg.Log.Error().Err(why).Msg("the identity cannot be read; agents are kept, nothing else is done")
	j, err := x.openJournal("")
	if err != nil {
		return err
	}
	defer func() { _ = j.Close() }()
	var who identity.Identity
	if err := j.Read(func(tx *journal.Tx) error { who.ServerID = tx.Note(noteServer); return nil }); err != nil {
		return err
	}
	log := x.cfg.Log.With().Str(logs.Server, who.ServerID).Logger()
	c, done, err := x.engineConfig(who, j, nil, log)
	if err != nil {
		return err
	}
	defer done()
	c.Fetcher = nobody{}
	e := engine.New(c)
	w := &waiter{x: x, since: time.Now(), why: why, server: who.ServerID}
	s := &teller{root: x.root, engine: e, standing: w.look, who: who, every: x.cfg.BeatInterval, note: x.self.Why, log: log}
	parts := []lifecycle.Part{{Name: "identity", Run: w.run}, {Name: "join", Run: w.join}, {Name: "status", Run: s.run}}
	ready, alive := ended(), livesBy(nil, j)
	if who.ServerID != "" { // it ran before, so there may be agents
		parts = append(parts, lifecycle.Part{Name: "engine", Run: e.Run})
		ready, alive = e.Ready(), livesBy(e, j)
	}
	parts = append(parts, x.manager.watched(ready, alive)...)
	if err := lifecycle.Run(ctx, parts...); err != nil {
		return err
	}
	if ctx.Err() != nil {
		s.end(x.cfg.StopAgents)
	}
	return nil
}

// ended gives a channel that is closed: what is waited for is there.
func ended() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// nobody brings nothing: without an identity there is no bus.
type nobody struct{}

func (nobody) Fetch(context.Context, *imagev1.Blob, func(uint64)) error {
	return fault.New(fault.Unavailable, "without an identity nothing can be fetched")
}

// waiter looks for the identity again and again.
type waiter struct {
	x      *Executor
	since  time.Time
	server string // that ran here before, or empty

	mu  sync.Mutex
	why error
}

const (
	// identityEvery is how often it is looked for.
	identityEvery = 2 * time.Second
	// joinFirst and joinLongest are how long it waits between two tries to join.
	joinFirst   = 5 * time.Second
	joinLongest = 5 * time.Minute
)

// run ends when the identity can be read.
func (w *waiter) run(ctx context.Context) error {
	tick := time.NewTicker(identityEvery)
	defer tick.Stop()
	for {
		if _, err := w.x.whole(); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// join tries to join again with the token that this executor was started with, where the identity is gone: with the same
// key the registry answers as before. A damaged identity is left to a person. It ends with ctx.
func (w *waiter) join(ctx context.Context) error {
	for wait := joinFirst; ; wait = min(2*wait, joinLongest) {
		if _, err := w.x.who(); w.x.cfg.Join != nil && fault.Is(err, fault.NotFound) {
			if err := w.x.cfg.Join(ctx, w.server); err != nil && ctx.Err() == nil {
				w.x.cfg.Log.Warn().Err(err).Dur("again_in", wait).Msg("not joined")
				w.mu.Lock()
				w.why = fmt.Errorf("%w; to join again: %w", w.x.lost(), err)
				w.mu.Unlock()
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// lost says that there is no identity.
func (x *Executor) lost() error { return fault.New(fault.NotFound, "%s has no identity", x.root) }

func (w *waiter) look() standing {
	w.mu.Lock()
	defer w.mu.Unlock()
	return standing{
		verdict: fate.Decide(fate.Facts{}), since: w.since,
		access: bus.Access{Login: bus.LoginUnreadable, Reason: w.why.Error(), NextTry: time.Now().Add(identityEvery)},
	}
}
