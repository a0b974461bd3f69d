package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/lifecycle"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/version"
	"github.com/garrison-fleet/garrison/services/executor/internal/engine"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/link"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
	"github.com/garrison-fleet/garrison/services/executor/internal/sysinfo"
)

// Config says how an executor runs. Only Root must be set.
type Config struct {
	Root         string        // everything that it keeps is below
	URL          string        // where the bus is; empty means as it was joined
	InProcess    bus.InProcess // an embedded server instead of URL, or nil
	Anonymous    *Server       // who it is, on a bus without authentication, in tests; nil means the identity under Root
	PollInterval time.Duration // between two reads of the document without a bell; 0 means 60 s
	BeatInterval time.Duration // between two beats; 0 means 5 s
	StopAgents   bool          // end the agents with the executor
	Policy       *supervise.Policy
	Log          zerolog.Logger
	FailPoint    func(point string) // for tests: told between the steps of a change
}

// Server is a server's place in subjects.
type Server = topology.ServerAddress

// Executor is one server's executor.
type Executor struct {
	cfg  Config
	root layout.Root
}

// New gives an executor; Run opens what it needs.
func New(cfg Config) *Executor {
	if cfg.PollInterval == 0 {
		cfg.PollInterval = time.Minute
	}
	if cfg.BeatInterval == 0 {
		cfg.BeatInterval = 5 * time.Second
	}
	if cfg.Policy == nil {
		cfg.Policy = &supervise.DefaultPolicy
	}
	return &Executor{cfg: cfg}
}

// Run works until ctx is done, which is no error, or the server was decommissioned, which
// is none either. An error is NotFound when nobody joined here.
func (x *Executor) Run(ctx context.Context) error {
	var err error
	if x.root, err = layout.New(x.cfg.Root); err != nil {
		return err
	}
	who, err := x.who()
	if err != nil {
		if gone, ok := decommissioned(x.root); ok && fault.Is(err, fault.NotFound) {
			x.cfg.Log.Info().Str(logs.Server, gone).Msg("decommissioned")
			return nil
		}
		return err
	}
	if err := os.MkdirAll(x.root.Home(), 0o700); err != nil {
		return fmt.Errorf("make %s: %w", x.root.Home(), err)
	}
	j, err := journal.Open(x.root.Journal())
	if err != nil {
		return err
	}
	defer func() { _ = j.Close() }()
	conn, err := x.dial(who)
	if err != nil {
		return err
	}
	defer conn.Close()
	return x.run(ctx, who, j, conn)
}

func (x *Executor) who() (identity.Identity, error) {
	if a := x.cfg.Anonymous; a != nil {
		return identity.Identity{ServerID: a.Server, Cell: a.Cell}, nil
	}
	return identity.Read(x.root)
}

// dial connects in the background: the executor works with the bus away.
func (x *Executor) dial(who identity.Identity) (*bus.Conn, error) {
	o := bus.Options{URL: who.URL, InProcess: x.cfg.InProcess, Name: who.ServerID, Log: x.cfg.Log, Persist: true, MaxBackoff: time.Minute}
	if x.cfg.URL != "" {
		o.URL = x.cfg.URL
	}
	if x.cfg.Anonymous == nil {
		o.Credentials, o.API = identity.Credentials(x.root), topology.NodesAPI
	}
	return bus.Dial(o)
}

func (x *Executor) run(ctx context.Context, who identity.Identity, j *journal.Journal, conn *bus.Conn) error {
	log := x.cfg.Log.With().Str(logs.Server, who.ServerID).Logger()
	d := &door{journal: j}
	l := link.New(link.Config{
		Conn: conn, Address: who.Address(), BootID: sysinfo.BootID(), Version: version.Version, Root: x.root,
		Door: d, PollInterval: x.cfg.PollInterval, BeatInterval: x.cfg.BeatInterval, Log: log,
	})
	e := engine.New(engine.Config{
		Root: x.root, ServerID: who.ServerID, BootID: sysinfo.BootID(), Journal: j, Fetcher: l, Sysinfo: sysinfo.Read,
		Progress: l.Progress, Policy: *x.cfg.Policy, CheckEvery: checkEvery, StopAgents: x.cfg.StopAgents,
		Log: log, FailPoint: x.cfg.FailPoint,
	})
	d.engine = e
	log.Info().Str(logs.Version, version.Version).Str(logs.Path, string(x.root)).Msg("executor runs")
	s := &teller{root: x.root, engine: e, conn: conn, who: who, every: x.cfg.BeatInterval, log: log}
	err := lifecycle.Run(ctx,
		lifecycle.Part{Name: "engine", Run: e.Run},
		lifecycle.Part{Name: "link", Run: l.Run},
		lifecycle.Part{Name: "status", Run: s.run})
	if errors.Is(err, engine.ErrDead) {
		return x.bury(who, j, l)
	}
	s.end(x.cfg.StopAgents)
	return err
}

// checkEvery is how often the agents' health is looked at.
const checkEvery = 15 * time.Second

// bury takes away what only a living server needs. The status that says so is written
// first: without it a start after a crash would find no identity and not know why.
func (x *Executor) bury(who identity.Identity, j *journal.Journal, l *link.Link) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := l.Flush(ctx); err != nil {
		x.cfg.Log.Warn().Err(err).Msg("last reports lost") // the control plane has what it needs
	}
	err := writeStatus(x.root, Status{ServerID: who.ServerID, Cell: who.Cell, State: StateDecommissioned, At: time.Now(), Version: version.Version})
	if err != nil {
		return err
	}
	err = errors.Join(identity.Remove(x.root), j.Close(), os.Remove(x.root.Journal()))
	x.cfg.Log.Info().Str(logs.Server, who.ServerID).Msg("decommissioned")
	return err
}
