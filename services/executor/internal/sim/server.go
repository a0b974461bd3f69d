package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/rungroup"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/version"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
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
