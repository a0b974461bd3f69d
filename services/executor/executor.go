package executor

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
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
	"github.com/garrison-fleet/garrison/services/executor/internal/uninstall"
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
	Supervisor   string        // what runs agents' processes: SupervisorAuto, and so on; "" means direct
	Comes        bool          // something starts it again with its token, as it does a container: an uninstall leaves a word for it
	Policy       *supervise.Policy
	Join         Joiner        // joins with the token that it was started with, while the identity is gone; may be nil
	Args         []string      // of this process, when it is an executor and nothing else; without them it cannot replace itself
	SteadyAfter  time.Duration // so long after a start the program of an image counts as one that stays up; 0 means a minute
	Keep         *Keep         // nil means DefaultKeep
	Log          zerolog.Logger
	FailPoint    func(point string) // for tests: told between the steps of a change
}

// Joiner joins the executor's root with its token, as a server; as any when that is empty.
type Joiner func(ctx context.Context, server string) error

// Keep says which replaced versions stay on the disk.
type Keep = engine.Keep

// DefaultKeep keeps one version of each agent, and 2 GiB at most.
var DefaultKeep = engine.DefaultKeep

// DefaultBeatInterval is how often an executor says that it lives.
const DefaultBeatInterval = 5 * time.Second

// Server is a server's place in subjects.
type Server = topology.ServerAddress

// Executor is one server's executor.
type Executor struct {
	cfg     Config
	root    layout.Root
	manager *manager // nil when none wants to hear of this process
	self    *self    // nil when it cannot replace itself
	jury    *jury    // nil when it is not on trial
	session string   // of this start, in beats
}

// New gives an executor; Run opens what it needs.
func New(cfg Config) *Executor {
	if cfg.PollInterval == 0 {
		cfg.PollInterval = time.Minute
	}
	if cfg.BeatInterval == 0 {
		cfg.BeatInterval = DefaultBeatInterval
	}
	if cfg.Policy == nil {
		cfg.Policy = &supervise.DefaultPolicy
	}
	if cfg.Keep == nil {
		cfg.Keep = &DefaultKeep
	}
	if cfg.SteadyAfter == 0 {
		cfg.SteadyAfter = time.Minute
	}
	if cfg.FailPoint == nil {
		cfg.FailPoint = func(string) {}
	}
	return &Executor{cfg: cfg, manager: managerOf(cfg), session: ident.New()}
}

// Run works until ctx is done, which is no error, or it has removed itself, which is none
// either. An error is NotFound when nobody joined here. When an image brought a program
// of the executor, this process becomes that program.
func (x *Executor) Run(ctx context.Context) error {
	x.manager.up()
	var err error
	if x.root, err = layout.New(x.cfg.Root); err != nil {
		return err
	}
	if done, err := x.finishUninstall(); done || err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := x.begin(ctx, cancel); err != nil {
		return err
	}
	var wait time.Duration
	for {
		err := x.work(ctx)
		if x.anew(ctx, err, &wait) {
			continue
		}
		again, err := x.follow(ctx, err)
		if !again {
			return x.self.ended(ctx, err)
		}
	}
}

// work is an executor's life until it ends, or another program is to take its place.
func (x *Executor) work(ctx context.Context) error {
	who, err := x.whole()
	for err != nil {
		if fault.Is(err, fault.NotFound) && notThere(x.root.Journal()) {
			return x.nobodyHere(err)
		}
		if err := x.unidentified(ctx, err); err != nil || ctx.Err() != nil {
			return err
		}
		who, err = x.whole()
	}
	x.manager.expect(startWithin) // it may have watched while there was no identity
	j, err := x.openJournal(who.ServerID)
	if err != nil {
		return err
	}
	defer func() { _ = j.Close() }()
	if err := layout.SweepTemporary(x.root.Home()); err != nil { // nobody else writes there: the journal is ours
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
	return x.run(ctx, who, j, conn)
}

// nobodyHere ends a start in a root without an identity. An executor of an earlier version
// left a status that says why.
func (x *Executor) nobodyHere(err error) error {
	if gone, ok := decommissioned(x.root); ok {
		x.cfg.Log.Info().Str(logs.Server, gone).Msg("decommissioned")
		return nil
	}
	uninstall.Sweep(x.root)
	return err
}

// noteServer is where the journal keeps whose it is, for a start without an identity.
const noteServer = "server"

func (x *Executor) noteServer(j *journal.Journal, id string) error {
	was := ""
	if err := j.Read(func(tx *journal.Tx) error { was = tx.Note(noteServer); return nil }); err != nil || was == id {
		return err
	}
	return j.Update(func(tx *journal.Tx) error { return tx.SetNote(noteServer, id) })
}

// noteProgram has the journal know which format this program uses, when it is an image's.
func (x *Executor) noteProgram(j *journal.Journal) error {
	target, program := linkedProgram(x.root)
	if x.self == nil || x.jury != nil || target == "" || !x.self.Runs(program) {
		return nil
	}
	return j.Update(func(tx *journal.Tx) error { return tx.SetKnows(target) })
}

func (x *Executor) who() (identity.Identity, error) {
	if a := x.cfg.Anonymous; a != nil {
		return identity.Identity{ServerID: a.Server, Cell: a.Cell}, nil
	}
	return identity.Read(x.root)
}

// whole gives the identity when the key can be read as well, without which no bus lets it in.
func (x *Executor) whole() (identity.Identity, error) {
	who, err := x.who()
	if err == nil && x.cfg.Anonymous == nil {
		err = identity.CheckKey(x.root)
	}
	return who, err
}

// dial connects, in the background when it is to persist: the executor works with the bus away.
func (x *Executor) dial(who identity.Identity, persist bool) (*bus.Conn, error) {
	o := bus.Options{URL: who.URL, InProcess: x.cfg.InProcess, Name: who.ServerID, Log: x.cfg.Log, Persist: persist, MaxBackoff: topology.ServerBackoff}
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
	c, done, err := x.engineConfig(who, j, conn, log)
	if err != nil {
		return err
	}
	defer done()
	g := x.newJudge(who, conn.Access, log)
	d := &door{journal: j, stands: g.look}
	l := link.New(link.Config{
		Conn: conn, Address: who.Address(), BootID: sysinfo.BootID(), SessionID: x.session, Hostname: sysinfo.Hostname(),
		Version: version.Version, Root: x.root, Door: d, PollInterval: x.cfg.PollInterval, BeatInterval: x.cfg.BeatInterval,
		Read: g.heard, Log: log,
	})
	c.Fetcher, c.Progress, c.Believe, c.Left, c.Doubted = l, l.Progress, g.believe, g.left, g.doubted
	c.NotTaken, c.ReadAgain = g.notTaken, l.ReadAgain
	e := engine.New(c)
	if _, err := e.Doubt(); err != nil { // before anything is believed
		return err
	}
	d.engine = e
	log.Info().Str(logs.Version, version.Version).Str(logs.Path, string(x.root)).Msg("executor runs")
	s := &teller{root: x.root, engine: e, standing: g.look, who: who, every: x.cfg.BeatInterval, note: x.self.Why, log: log}
	parts := []lifecycle.Part{{Name: "engine", Run: e.Run}, {Name: "link", Run: l.Run}, {Name: "judge", Run: g.run}, {Name: "status", Run: s.run}}
	switch {
	case x.jury != nil:
		parts = append(parts, lifecycle.Part{Name: "trial", Run: func(ctx context.Context) error { return x.jury.convince(ctx, e, conn, who.Address()) }})
	case x.self != nil:
		parts = append(parts, lifecycle.Part{Name: "steady", Run: x.self.steady})
	}
	parts = append(parts, x.manager.watched(e.Ready(), livesBy(e, j))...)
	err = lifecycle.Run(ctx, parts...)
	if x.jury != nil || givesPlace(err) || errors.Is(err, journal.ErrDamaged) {
		return err // it runs on, as another program or with another journal
	}
	if errors.Is(err, errUninstall) {
		return x.uninstall(ctx, uninstaller{who: who, tombstone: g.tombstone, journal: j, link: l, teller: s})
	}
	s.end(x.cfg.StopAgents)
	return err
}

// checkEvery is how often the agents' health is looked at.
const checkEvery = 15 * time.Second

// engineConfig gives what an engine needs wherever it runs: whether or not it is known
// which server this is, the same is kept and the same program does the work. conn is nil
// without a bus. done lets the supervisor go, and touches nothing that runs.
func (x *Executor) engineConfig(who identity.Identity, j *journal.Journal, conn *bus.Conn, log zerolog.Logger) (c engine.Config, done func(), err error) {
	supervisor, err := x.supervisor(j, log)
	if err != nil {
		return c, nil, err
	}
	done = func() {}
	if s, ok := supervisor.(io.Closer); ok {
		done = func() { _ = s.Close() }
	}
	return engine.Config{
		Root: x.root, ServerID: who.ServerID, BootID: sysinfo.BootID(), Version: version.Version, Journal: j, Sysinfo: sysinfo.Read,
		Supervisor: supervisor, CheckEvery: checkEvery, StopAgents: x.cfg.StopAgents, Keep: *x.cfg.Keep,
		Trust: x.trust, Self: x.self.with(j, conn), Trial: x.jury != nil, Log: log, FailPoint: x.cfg.FailPoint,
	}, done, nil
}
