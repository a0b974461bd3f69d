package executor

import (
	"context"
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
	j, err := x.openJournal()
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
	w := &waiter{x: x, since: time.Now(), why: why}
	s := &teller{root: x.root, engine: e, standing: w.look, who: who, every: x.cfg.BeatInterval, note: x.self.Why, log: log}
	parts := []lifecycle.Part{{Name: "identity", Run: w.run}, {Name: "status", Run: s.run}}
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
	x     *Executor
	since time.Time
	why   error
}

// identityEvery is how often it is looked for.
const identityEvery = 2 * time.Second

// run ends when the identity can be read.
func (w *waiter) run(ctx context.Context) error {
	tick := time.NewTicker(identityEvery)
	defer tick.Stop()
	for {
		if _, err := w.x.who(); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (w *waiter) look() standing {
	return standing{
		verdict: fate.Decide(fate.Facts{}), since: w.since,
		access: bus.Access{Login: bus.LoginUnreadable, Reason: w.why.Error(), NextTry: time.Now().Add(identityEvery)},
	}
}
