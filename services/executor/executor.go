// Package executor is the process that runs on each server: it does what the server's document
// says, health-checks the result, rolls back what does not work, and reports.
//
// It has two halves. Package link talks to the bus; package engine changes the server and has no
// network. Documents and chunks go from the link to the engine, reports go back.
//
// Guarantees:
//
//  1. After a kill at any instant the next start leaves each agent with its old or its new version,
//     whole, and every task ends exactly once.
//  2. It works without the bus: agents are taken over, started and healed.
//  3. A refused login never removes anything and never ends it, nor does an unreadable identity.
//  4. Its own end leaves the agents running, unless it is configured to stop them.
//  5. An image replaces its program like any agent's: a new program proves itself in its place, or
//     the old one goes on; a new program that keeps ending later is given up for the one before.
//  6. It removes itself only when the registry sent at the join that the machine was enrolled
//     manually, and the registry's signature says that this very server is dead. See docs/removal.md.
//
// To run one:
//
//	err := executor.New(executor.Config{Root: "/var/lib/garrison", Log: log}).Run(ctx)
package executor

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/debug"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/metrics"
	"github.com/garrison-fleet/garrison/pkg/rungroup"
	"github.com/garrison-fleet/garrison/pkg/sdnotify"
	"github.com/garrison-fleet/garrison/pkg/seal"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/version"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/engine"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/link"
	"github.com/garrison-fleet/garrison/services/executor/internal/logview"
	"github.com/garrison-fleet/garrison/services/executor/internal/monitor"
	"github.com/garrison-fleet/garrison/services/executor/internal/reaper"
	"github.com/garrison-fleet/garrison/services/executor/internal/removal"
	"github.com/garrison-fleet/garrison/services/executor/internal/renewal"
	"github.com/garrison-fleet/garrison/services/executor/internal/selfupdate"
	"github.com/garrison-fleet/garrison/services/executor/internal/status"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
	"github.com/garrison-fleet/garrison/services/executor/internal/sysinfo"
)

// Config configures an executor. Only Root must be set.
type Config struct {
	Root      string        // the directory of everything that the executor keeps
	URL       string        // of the bus; empty means the one of the join
	InProcess bus.InProcess // an embedded server instead of URL, or nil
	// AllowPlain allows a bus on another host without TLS.
	AllowPlain bool
	// Anonymous is the server on a bus without authentication, for tests; nil means the identity under Root.
	Anonymous    *Server
	PollInterval time.Duration // between two readings of the document without a bell; 0 means 60 s
	BeatInterval time.Duration // between two beats; 0 means 5 s
	CheckEvery   time.Duration // between two checks of the agents; 0 means 15 s
	ContentEvery time.Duration // what a round that reads the content of images aims at; 0 means 45 s
	StopAgents   bool          // stop the agents with the executor
	Supervisor   string        // what runs agents' processes: SupervisorAuto, and so on; "" means direct
	// Rejoins is set where something starts the executor again with its token, for example a container
	// runtime: an uninstall then leaves its mark for the next start.
	Rejoins bool
	Policy  *supervise.Policy
	Join    Joiner // joins with the token of this start while the identity is missing; may be nil
	// Args are those of a process that is only an executor; without them it cannot replace itself.
	Args        []string
	SteadyAfter time.Duration // a program of an image that runs so long counts as one that stays up; 0 means a minute
	Keep        *Keep         // nil means DefaultKeep
	DebugSocket string        // where package debug serves the state; "" means nowhere
	// MetricsSocket is the unix socket that serves metrics and health; empty means none.
	MetricsSocket string
	Log           zerolog.Logger
	FailPoint     func(point string) // called between the steps of a change, for tests
}

// Joiner joins the executor's root with its token, as one server; as any when server is empty.
type Joiner func(ctx context.Context, server string) error

// Keep says which replaced versions stay on the disk.
type Keep = engine.Keep

// DefaultKeep keeps one version of each agent, and 2 GiB at most.
var DefaultKeep = engine.DefaultKeep

// DefaultBeatInterval is the time between two beats.
const DefaultBeatInterval = 5 * time.Second

// Server is a server's address in subjects.
type Server = topology.ServerAddress

// Executor is the executor of one server.
type Executor struct {
	cfg      Config
	root     layout.Root
	notifier *sdnotify.Notifier  // nil when no service manager listens
	process  *selfupdate.Process // nil when it cannot replace itself
	session  string              // of this start, in beats
	state    *debug.State
	metrics  *metrics.Set // nil without a socket for them
}

// New returns an executor; Run opens what it needs.
func New(cfg Config) *Executor {
	cfg.PollInterval, cfg.SteadyAfter = cmp.Or(cfg.PollInterval, time.Minute), cmp.Or(cfg.SteadyAfter, time.Minute)
	cfg.BeatInterval = cmp.Or(cfg.BeatInterval, DefaultBeatInterval)
	cfg.Policy, cfg.Keep = cmp.Or(cfg.Policy, &supervise.DefaultPolicy), cmp.Or(cfg.Keep, &DefaultKeep)
	if cfg.FailPoint == nil {
		cfg.FailPoint = func(string) {}
	}
	x := &Executor{cfg: cfg, session: ident.New(), state: &debug.State{}}
	if cfg.Args != nil && !selfupdate.OnTrial() { // a candidate is not the process that the manager started
		x.notifier = sdnotify.FromEnv(cfg.Log)
	}
	return x
}

// Run works until ctx is done or the executor has removed itself; neither is an error. An error is
// NotFound where no server joined. When an image brought a program of the executor, this process
// becomes that program.
func (x *Executor) Run(ctx context.Context) error {
	x.notifier.Ready()
	var err error
	if x.root, err = layout.New(x.cfg.Root); err != nil {
		return err
	}
	if done, err := removal.Complete(x.removal()); done || err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if x.cfg.Args != nil {
		if x.process, err = selfupdate.Start(ctx, x.selfUpdate(), cancel); err != nil {
			return err
		}
	}
	defer x.serveState(ctx)()
	go x.reapOrphans(ctx)
	var wait time.Duration
	for {
		err := x.runOnce(ctx)
		if x.retryDamaged(ctx, err, &wait) {
			continue
		}
		again, err := x.process.Follow(ctx, err)
		if !again {
			return x.process.Ended(ctx, err)
		}
	}
}

// reapOrphans waits for the orphans of a container whose process 1 this is, until ctx is done.
func (x *Executor) reapOrphans(ctx context.Context) {
	if err := reaper.Run(ctx); err != nil {
		x.cfg.Log.Warn().Err(err).Msg("orphans stay zombies: run the executor below an init, as docker run --init does")
	}
}

// runOnce runs the executor until it ends, or until another program is to take its place.
func (x *Executor) runOnce(ctx context.Context) error {
	who, err := x.checkedIdentity()
	for err != nil {
		if fault.Is(err, fault.NotFound) && layout.Missing(x.root.Journal()) {
			return x.neverJoined(err)
		}
		if err := x.unidentified(ctx, err); err != nil || ctx.Err() != nil {
			return err
		}
		who, err = x.checkedIdentity()
	}
	x.notifier.Expect(sdnotify.StartWithin) // the manager may have watched while there was no identity
	j, err := x.openJournal(who.ServerID)
	if err != nil {
		return err
	}
	defer func() { _ = j.Close() }()
	if err := layout.SweepTemporary(x.root.Home()); err != nil { // the journal's lock covers the directory
		x.cfg.Log.Warn().Err(err).Msg("unfinished files not swept")
	}
	conn, err := x.dial(who, true)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := errors.Join(x.noteServer(j, who.ServerID), x.noteProgram(j)); err != nil {
		return err
	}
	return x.runParts(ctx, who, j, conn)
}

// neverJoined ends a start in a root without an identity.
func (x *Executor) neverJoined(err error) error {
	if gone, ok := status.WasDecommissioned(x.root); ok {
		x.cfg.Log.Info().Str(logs.Server, gone).Msg("server was decommissioned")
		return nil
	}
	removal.Sweep(x.root)
	return err
}

// runParts runs the engine, the link and what belongs to them.
func (x *Executor) runParts(ctx context.Context, who identity.Identity, j *journal.Journal, conn *bus.Conn) error {
	log := x.cfg.Log.With().Str(logs.Server, who.ServerID).Logger()
	c, done, err := x.engineConfig(who, j, conn, log)
	if err != nil {
		return err
	}
	defer done()
	m := monitor.New(monitor.Config{
		Identity: who, Access: conn.Access, JWT: x.jwt, RefusedFor: refusedBeats * x.cfg.BeatInterval, Log: log,
	})
	standing := func() monitor.Standing { return x.withRoot(m.Standing()) }
	d := &backend{journal: j, standing: standing}
	lc := x.linkConfig(who, conn, d)
	lc.Read, lc.Refused = m.DocumentRead, m.Refused
	l := link.New(lc)
	c.Fetcher, c.Progress, c.Believe, c.Left, c.Doubted = l, l.Progress, m.Document, m.Remaining, m.Doubt
	c.NotTaken, c.ReadAgain, c.HearWithin = m.History, l.ReadAgain, hearWithin
	c.Bus = asked{conn, who.Address(), x}
	e := engine.New(c)
	if _, err := e.Doubt(); err != nil { // before any document is followed
		return err
	}
	d.engine = e
	log.Info().Str(logs.Version, version.Version).Str(logs.Path, string(x.root)).Msg("executor running")
	s := x.statusWriter(e, who, standing, log)
	defer x.showState(s, m, e)()
	parts := []rungroup.Part{
		{Name: "engine", Run: e.Run},
		{Name: "link", Run: l.Run},
		{Name: "monitor", Run: m.Run},
		{Name: "status", Run: s.Run},
	}
	parts = append(parts, rungroup.Part{Name: "logs", Run: logview.New(logview.Config{
		Conn: conn, Address: who.Address(), Root: x.root, Secrets: d.secrets, Log: log,
	}).Run})
	if x.cfg.Anonymous == nil {
		renewed := &renewal.Renewal{Root: x.root, Conn: conn, Log: log}
		parts = append(parts, rungroup.Part{Name: "credentials", Run: renewed.Run})
	}
	candidate := x.process.Candidate()
	switch {
	case candidate != nil:
		parts = append(parts, rungroup.Part{Name: "trial", Run: func(ctx context.Context) error {
			return candidate.Prove(ctx, e.Ready(), conn, who.Address())
		}})
	case x.process != nil:
		parts = append(parts, rungroup.Part{Name: "steady", Run: x.process.Steady})
	}
	parts = append(parts, x.notifier.Watched(e.Ready(), alive(e, j))...)
	err = rungroup.Run(ctx, parts...)
	if candidate != nil || selfupdate.Yields(err) || errors.Is(err, journal.ErrDamaged) {
		return err // the executor goes on, as another program or with another journal
	}
	if errors.Is(err, monitor.ErrUninstall) {
		var done bool
		done, err = removal.Last(ctx, x.removal(), removal.Server{
			Identity: who, Tombstone: m.Tombstone(), Journal: j, Link: l, Meanwhile: s.Run,
		})
		if err != nil || done {
			return err
		}
	}
	s.End(x.cfg.StopAgents)
	return err
}

// statusWriter returns the writer of this executor's status.
func (x *Executor) statusWriter(
	e *engine.Engine,
	who identity.Identity,
	standing func() monitor.Standing,
	log zerolog.Logger,
) *status.Writer {
	return &status.Writer{
		Root: x.root, Engine: e, Standing: standing, Identity: who, Interval: x.cfg.BeatInterval,
		Note: x.process.Why, Log: log,
	}
}

// DefaultCheckEvery is the time between two checks of the agents: their files, their processes and their health.
const DefaultCheckEvery = 15 * time.Second

// refusedBeats is for how many beats a refusal of one holds: a beat and its refusal may be lost.
const refusedBeats = 4

// hearWithin is how long a change during which the executor crashed waits for the document before it resumes.
const hearWithin = 5 * time.Second

// engineConfig returns the config of an engine. conn is nil without a bus. done releases the
// supervisor, and touches no process.
func (x *Executor) engineConfig(
	who identity.Identity,
	j *journal.Journal,
	conn *bus.Conn,
	log zerolog.Logger,
) (c engine.Config, done func(), err error) {
	supervisor, err := x.supervisor(j, log)
	if err != nil {
		return c, nil, err
	}
	done = func() {}
	if s, ok := supervisor.(io.Closer); ok {
		done = func() { _ = s.Close() }
	}
	return engine.Config{
		Root: x.root, ServerID: who.ServerID, BootID: sysinfo.BootID(), Version: version.Version, Journal: j,
		Sysinfo: sysinfoAt(x.root, j.KeptBytes), Supervisor: supervisor, StopAgents: x.cfg.StopAgents,
		CheckEvery: cmp.Or(x.cfg.CheckEvery, DefaultCheckEvery), ContentEvery: x.cfg.ContentEvery,
		Keep: *x.cfg.Keep, Trust: x.trust, Self: x.process.For(j, conn), Trial: x.process.Candidate() != nil,
		Log: log, FailPoint: x.cfg.FailPoint,
	}, done, nil
}

// sysinfoAt returns what reads the machine's properties, and whether images must be signed. kept returns the bytes that
// give way to a change.
func sysinfoAt(root layout.Root, kept func() uint64) func(context.Context) *serverv1.Sysinfo {
	read := sysinfo.ReadAt(string(root), kept)
	return func(ctx context.Context) *serverv1.Sysinfo {
		s := read(ctx)
		keys, err := identity.ImageKeys(root)
		s.WantsSignatures = err != nil || len(keys) > 0 // a file that cannot be read refuses all
		return s
	}
}

// trust refuses an image that none of this server's keys signed. Without keys it trusts all.
func (x *Executor) trust(m *imagev1.Manifest) error {
	keys, err := identity.ImageKeys(x.root)
	if err != nil {
		return fault.Refusef(fault.Invalid, code.ImageKeysUnreadable, "no image is accepted: %v", err).From("executor")
	}
	if keys == nil {
		return nil
	}
	return seal.Trust(m, keys)
}

// Shim becomes an agent that has sockets, when the program was started by itself for
// that, and does nothing otherwise. A program that runs an executor calls it with
// os.Args before anything else.
func Shim(args []string) { supervise.Shim(args) }
