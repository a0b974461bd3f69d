package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/rungroup"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/version"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/link"
	"github.com/garrison-fleet/garrison/services/executor/internal/renewal"
)

// server is one simulated server that joined.
type server struct {
	fleet  *Fleet
	root   layout.Root
	who    identity.Identity
	engine *engine
}

// open returns the server that joined under a root.
func (f *Fleet) open(root layout.Root) (*server, error) {
	who, err := identity.Read(root)
	if err != nil {
		return nil, err
	}
	m, err := readMemory(root)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", root, err)
	}
	return &server{fleet: f, root: root, who: who, engine: f.newEngine(root, who.ServerID, m)}, nil
}

// run keeps the server online until ctx is done or the server is dead.
func (s *server) run(ctx context.Context) error {
	if s.engine.dead() || s.engine.vanished() {
		return nil
	}
	log := s.fleet.cfg.Log.With().Str(logs.Server, s.who.ServerID).Logger()
	conn, err := bus.Dial(s.options())
	if err != nil {
		return fmt.Errorf("server %s: %w", s.who.ServerID, err)
	}
	defer conn.Close()
	conn.OnBack(func() {
		if conn.WasLost() {
			s.fleet.Seen.Reconnects.Add(1)
		}
	})
	l := link.New(link.Config{
		Conn: conn, Address: s.who.Address(), BootID: s.fleet.boot, SessionID: ident.New(),
		Hostname: filepath.Base(string(s.root)), Version: version.Version, Root: s.root, Backend: s.engine,
		PollInterval: s.fleet.cfg.PollInterval, BeatInterval: s.fleet.cfg.BeatInterval, Read: s.read, Log: log,
	})
	s.engine.progress = l.Progress
	renewed := &renewal.Renewal{Root: s.root, Conn: conn, Log: log}
	parts := []rungroup.Part{
		{Name: "engine", Run: s.engine.run}, {Name: "link", Run: l.Run}, {Name: "credentials", Run: renewed.Run},
	}
	if s.engine.fault == Flapping {
		parts = append(parts, rungroup.Part{Name: "disconnects", Run: func(ctx context.Context) error {
			return flap(ctx, conn)
		}})
	}
	if s.engine.fault == Vanishing {
		parts = append(parts, rungroup.Part{Name: "absence", Run: s.engine.vanish})
	}
	if err := rungroup.Run(ctx, parts...); err != nil {
		return fmt.Errorf("server %s: %w", s.who.ServerID, err)
	}
	if s.engine.dead() {
		s.fleet.Seen.Ended.Add(1)
		log.Info().Msg("server is dead; it ends")
	}
	return nil
}

// read counts the readings of the document that failed.
func (s *server) read(err error) {
	if err != nil {
		s.fleet.Seen.Unread.Add(1)
	}
}

// options are those of an executor's connection.
func (s *server) options() bus.Options {
	o := bus.Options{
		URL: s.who.URL, Name: s.who.ServerID, Log: s.fleet.cfg.Log, Persist: true,
		FirstWait: topology.ServerFirstWait, MaxBackoff: topology.ServerBackoff,
		Credentials: s.fleet.files.credentials(identity.Credentials(s.root)), API: topology.NodesAPI,
		TLS: s.who.TLS(s.root),
	}
	if s.fleet.cfg.URL != "" {
		o.URL = s.fleet.cfg.URL
	}
	if s.fleet.cfg.AllowPlain {
		o.TLS.AllowPlain = true
	}
	return o
}

// flap breaks a connection again and again.
func flap(ctx context.Context, conn *bus.Conn) error {
	for {
		if err := wakeup.Pause(ctx, flapEvery/2+rand.N(flapEvery)); err != nil {
			return err
		}
		if conn.Connected() {
			_ = conn.Reconnect() // it is already reconnecting
		}
	}
}

// Truth is what a server did and has.
type Truth struct {
	Fault     Fault
	Dead      bool
	Agents    map[string]string       // the id of the image of each agent
	Ended     map[string]taskv1.State // how tasks ended
	Forgotten bool                    // it does not remember all of them
	Waiting   int                     // reports that were not acknowledged
	Dropped   int                     // reports that were lost because the outbox was full
	Tried     []string                // the versions to which a change began
}

func (e *engine) truth() Truth {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := Truth{
		Fault: e.fault, Dead: e.memory.Dead, Agents: map[string]string{}, Ended: map[string]taskv1.State{},
		Forgotten: e.memory.Forgotten > 0, Waiting: len(e.memory.Outbox), Dropped: e.memory.Dropped,
		Tried: slices.Clone(e.memory.Tried),
	}
	for name, a := range e.memory.Agents {
		t.Agents[name] = a.ImageID
	}
	for _, was := range e.memory.Ended {
		t.Ended[was.TaskID] = was.State
	}
	return t
}

func (e *engine) dead() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.memory.Dead
}

// Seen counts what the servers of a fleet did since it was started. It is safe for concurrent use.
type Seen struct {
	Documents  atomic.Int64 // documents taken
	Refused    atomic.Int64 // documents that did not continue the history of the one before
	Unread     atomic.Int64 // attempts to read a document that failed
	Begun      atomic.Int64 // tasks and changes without a task
	Succeeded  atomic.Int64
	Undone     atomic.Int64
	Failed     atomic.Int64
	Reports    atomic.Int64 // acknowledged by the bus
	Reconnects atomic.Int64
	Ended      atomic.Int64 // servers that ended because they are dead
	Vanished   atomic.Int64 // servers that went away forever
}

func (s *Seen) ended(state taskv1.State) {
	switch state {
	case taskv1.State_STATE_SUCCEEDED:
		s.Succeeded.Add(1)
	case taskv1.State_STATE_UNDONE:
		s.Undone.Add(1)
	case taskv1.State_STATE_FAILED:
		s.Failed.Add(1)
	}
}
