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
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/version"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
	"github.com/garrison-fleet/garrison/services/executor/internal/engine"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/lifecycle"
	"github.com/garrison-fleet/garrison/services/executor/internal/link"
	"github.com/garrison-fleet/garrison/services/executor/internal/monitor"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
	"github.com/garrison-fleet/garrison/services/executor/internal/sysinfo"
)

// noteServer records in the journal whose it is.
func (x *Executor) noteServer(j *journal.Journal, id string) error {
	if was, err := j.Note(journal.NoteServer); err != nil || was == id {
		return err
	}
	return j.SetNote(journal.NoteServer, id)
}

// noteProgram records in the journal that the program of this image can read the journal's format.
func (x *Executor) noteProgram(j *journal.Journal) error {
	target, ok := x.process.IsLinked()
	if !ok {
		return nil
	}
	return j.Update(func(tx *journal.Tx) error { return tx.SetKnows(target) })
}

func (x *Executor) identity() (identity.Identity, error) {
	if a := x.cfg.Anonymous; a != nil {
		return identity.Identity{ServerID: a.Server, Cell: a.Cell}, nil
	}
	return identity.Read(x.root)
}

// checkedIdentity returns the identity where the key is readable as well; the bus requires both.
func (x *Executor) checkedIdentity() (identity.Identity, error) {
	who, err := x.identity()
	if err == nil && x.cfg.Anonymous == nil {
		err = identity.CheckKey(x.root)
	}
	return who, err
}

// jwt returns the JWT as it is on the disk now.
func (x *Executor) jwt() string {
	who, err := x.identity()
	if err != nil {
		return ""
	}
	return who.JWT
}

// linkConfig returns the config of a link without the functions that take what it reads and hears.
func (x *Executor) linkConfig(who identity.Identity, conn *bus.Conn, b link.Backend) link.Config {
	return link.Config{
		Conn: conn, Address: who.Address(), BootID: sysinfo.BootID(), SessionID: x.session,
		Hostname: sysinfo.Hostname(), Version: version.Version, Root: x.root, Backend: b,
		PollInterval: x.cfg.PollInterval, BeatInterval: x.cfg.BeatInterval, Log: x.cfg.Log,
	}
}

// dial connects, in the background when it is to persist: the executor works without the bus.
func (x *Executor) dial(who identity.Identity, persist bool) (*bus.Conn, error) {
	o := bus.Options{
		URL:        who.URL,
		InProcess:  x.cfg.InProcess,
		Name:       who.ServerID,
		Log:        x.cfg.Log,
		Persist:    persist,
		FirstWait:  topology.ServerFirstWait,
		MaxBackoff: topology.ServerBackoff,
	}
	if x.cfg.URL != "" {
		o.URL = x.cfg.URL
	}
	if x.cfg.Anonymous == nil {
		o.Credentials, o.API, o.TLS = identity.Credentials(x.root), topology.NodesAPI, who.TLS(x.root)
	}
	if x.cfg.AllowPlain {
		o.TLS.AllowPlain = true
	}
	return bus.Dial(o)
}

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
