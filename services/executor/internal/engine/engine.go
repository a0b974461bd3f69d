package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
	"github.com/garrison-fleet/garrison/services/executor/internal/inventory"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/lineage"
	"github.com/garrison-fleet/garrison/services/executor/internal/plan"
	"github.com/garrison-fleet/garrison/services/executor/internal/sockets"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// Parallel is how many changes are under way at most.
const Parallel = 4

// Fetcher brings every chunk of a blob into the cache, each one verified. It tries until
// ctx is done or it is known that it cannot work.
type Fetcher interface {
	Fetch(ctx context.Context, b *imagev1.Blob, progress func(done uint64)) error
}

// Config is what an engine needs. Everything but LookEvery, LookRest, Progress, Self, Trial and FailPoint must be set.
type Config struct {
	Root       layout.Root
	ServerID   string
	BootID     string
	Version    string // the executor's own
	Journal    *journal.Journal
	Fetcher    Fetcher
	Sysinfo    func(context.Context) *serverv1.Sysinfo
	Progress   func(*taskv1.Progress) // told while a task runs; must not block
	Supervisor supervise.Supervisor
	Keep       Keep                           // which replaced versions stay on the disk
	CheckEvery time.Duration                  // how often the agents' health is looked at
	LookEvery  time.Duration                  // how often it is looked whether the machine was changed; 0 means a minute
	LookRest   time.Duration                  // how long after such a change the next one waits; 0 means ten minutes
	StopAgents bool                           // end the agents with the executor
	Self       Self                           // how the executor replaces itself; nil when it cannot
	Trial      bool                           // this executor is on trial: it keeps agents running and changes nothing else
	Trust      func(*imagev1.Manifest) error  // refuses an image that nobody vouches for; nil trusts all
	Believe    func(*desiredv1.Document) bool // says whether a document that is not older may be followed; nil means yes
	NotTaken   func(lineage.Verdict)          // told why documents are not taken, and with Same that they are; may be nil
	ReadAgain  func()                         // has the document read again; may be nil
	Left       func(Remains)                  // told what is left of the agents while the server is dead; may be nil
	Doubted    func(Doubt)                    // told what keeps the inventory from being trusted, when that changes; may be nil
	Log        zerolog.Logger
	FailPoint  func(point string) // for tests: told between the steps of a change
}

// Engine is the half of the executor that changes the server.
type Engine struct {
	cfg     Config
	images  *imagedir.Images
	sockets *sockets.Set
	records inventory.Keeper

	offers   chan *desiredv1.Document // the newest document that was not taken yet
	ended    chan changeEnd           // changes that have ended
	ready    chan struct{}            // closed when everything is taken over
	gives    chan error               // why this process gives its place to another one
	stirred  chan struct{}            // an agent changed by itself
	checked  chan struct{}            // the agents' health was checked
	machines chan machine             // what the machine is, when it was looked at
	turns    chan struct{}            // who asks whether the loop turns

	reserving sync.Mutex // held while a change looks for room
	keeping   sync.Mutex // held while kept versions are given up
	saying    sync.Mutex // held from a look at the agents until it is said, so that the last one said is the newest

	mu    sync.Mutex
	units map[string]map[string]supervise.Unit // by agent and image id
	sick  map[string]string                    // why an agent's probe fails, by agent
	steps map[string]taskv1.Step               // what is being done, by agent

	blobs   map[string]chan struct{} // closed when the change ends that brings a blob, by digest
	settled map[string]time.Time     // when an agent's last change ended
	repairs map[string]repairs       // of damaged files, by agent
	said    *reportv1.AgentsReport   // what was last said to be there
	doubt   Doubt

	endings endings

	life context.Context // done once it is known that the server is dead
	die  context.CancelFunc

	// Owned by Run's goroutine.
	document *desiredv1.Document
	busy     map[string]bool
	checking bool // the agents' health
	reading  bool // what the machine is
	tried    map[string]time.Time
	patience lineage.Patience
	shown    lineage.Verdict // why documents are not taken, as it was told

	sysinfo   *serverv1.Sysinfo // what was last said that the machine is
	changedAt time.Time         // when it last changed by itself

	changes sync.WaitGroup
	alone   string // the agent whose change is, or was last, the executor's own
	leaving error  // a *HandOver or *Replace that was noticed
}

// New gives an engine.
func New(cfg Config) *Engine {
	if cfg.Progress == nil {
		cfg.Progress = func(*taskv1.Progress) {}
	}
	if cfg.FailPoint == nil {
		cfg.FailPoint = func(string) {}
	}
	if cfg.Trust == nil {
		cfg.Trust = func(*imagev1.Manifest) error { return nil }
	}
	if cfg.Believe == nil {
		cfg.Believe = func(*desiredv1.Document) bool { return true }
	}
	if cfg.NotTaken == nil {
		cfg.NotTaken = func(lineage.Verdict) {}
	}
	if cfg.ReadAgain == nil {
		cfg.ReadAgain = func() {}
	}
	if cfg.Left == nil {
		cfg.Left = func(Remains) {}
	}
	if cfg.Doubted == nil {
		cfg.Doubted = func(Doubt) {}
	}
	cfg.LookEvery, cfg.LookRest = cmp.Or(cfg.LookEvery, lookEvery), cmp.Or(cfg.LookRest, lookRest)
	e := &Engine{
		cfg: cfg, images: imagedir.New(cfg.Root), records: inventory.Keeper{Root: cfg.Root, Server: cfg.ServerID, Journal: cfg.Journal},
		offers: make(chan *desiredv1.Document, 1), ended: make(chan changeEnd, Parallel), stirred: make(chan struct{}, 1), checked: make(chan struct{}), machines: make(chan machine), turns: make(chan struct{}),
		ready: make(chan struct{}), gives: make(chan error, 1),
		units: map[string]map[string]supervise.Unit{}, sick: map[string]string{},
		steps: map[string]taskv1.Step{}, settled: map[string]time.Time{}, repairs: map[string]repairs{}, blobs: map[string]chan struct{}{},
		busy: map[string]bool{}, tried: map[string]time.Time{},
	}
	e.life, e.die = context.WithCancel(context.Background())
	e.sockets = e.newSockets()
	return e
}

// Ready is closed when Run has recovered: the journal was read and the agents taken over.
func (e *Engine) Ready() <-chan struct{} { return e.ready }

// Turn returns when Run's loop has come to its beginning again, or ctx is done.
func (e *Engine) Turn(ctx context.Context) error {
	select {
	case e.turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Offer hands over a document. It never blocks; an older one that waits is replaced. That
// the server is dead is heard at once, also while Run still finishes what was interrupted.
func (e *Engine) Offer(d *desiredv1.Document) {
	e.hearDeath(d)
	for {
		select {
		case e.offers <- d:
			return
		default:
		}
		select {
		case waiting := <-e.offers:
			if newer(waiting, d) {
				d = waiting
			}
		default:
		}
	}
}

// Run recovers and then converges until ctx is done, which is no error, or another process
// is to take this one's place: then it gives a *HandOver or a *Replace. Once the server is
// dead and its agents are gone it only watches. An error is journal.ErrDamaged when the
// journal cannot be used any more: then every agent runs on.
func (e *Engine) Run(ctx context.Context) (err error) {
	for _, dir := range []string{e.cfg.Root.Agents(), e.cfg.Root.Images(), e.cfg.Root.Cache()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make %s: %w", dir, err)
		}
	}
	defer func() { e.leave(errors.Is(err, journal.ErrDamaged)) }()
	ctx, stop := context.WithCancel(ctx)
	defer stop()                         // first: whatever is under way, the next start goes on with it
	if _, err := e.Doubt(); err != nil { // also where nobody asked before
		return err
	}
	if err := e.recover(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	if e.givesPlace() {
		return e.leaving
	}
	if err := e.sayAgents("", true); err != nil { // whatever was said before
		return err
	}
	close(e.ready)
	e.cfg.FailPoint("recovered")
	return e.loop(ctx)
}

// hereEvery is how often it is looked whether the journal is still there.
const hereEvery = time.Second

func (e *Engine) loop(ctx context.Context) error {
	check := time.NewTicker(e.cfg.CheckEvery)
	defer check.Stop()
	info := time.NewTicker(e.cfg.LookEvery)
	defer info.Stop()
	here := time.NewTicker(hereEvery)
	defer here.Stop()
	looks, stop := context.WithCancel(ctx)
	defer stop() // nobody waits for what is being looked at when this process gives its place
	e.lookAtMachine(looks)
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case d := <-e.offers:
			if err = e.take(ctx, d); err == nil {
				err = e.lookForRequests(looks)
			}
		case c := <-e.ended:
			if err = c.err; err == nil {
				delete(e.busy, c.agent)
				if _, err = e.Doubt(); err == nil {
					err = e.converge(ctx)
				}
			}
			if len(e.busy) == 0 { // once for all that ended together
				e.lookAtMachine(looks)
			}
		case <-e.turns:
		case <-e.stirred:
			if err = e.sayAgents("", false); err == nil {
				err = e.converge(ctx)
			}
		case <-check.C:
			e.checkHealth(looks)
			if _, err = e.Doubt(); err == nil {
				_, err = e.emptyTrash()
			}
			if err == nil {
				err = e.converge(ctx)
			}
		case <-e.checked:
			e.checking = false
			err = e.sayAgents("", false)
		case <-here.C:
			err = e.cfg.Journal.Here()
		case <-info.C:
			e.lookAtMachine(looks)
		case m := <-e.machines:
			e.reading = false
			err = e.answer(looks, m)
		}
		switch {
		case err != nil || e.cfg.Trial:
		case e.givesPlace():
			if len(e.busy) == 0 {
				return e.leaving
			}
		case e.dead():
			err = e.bury(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// converge begins the changes that may begin now.
func (e *Engine) converge(ctx context.Context) error {
	if e.document == nil || e.dead() || e.cfg.Trial || e.givesPlace() {
		return nil
	}
	s, err := e.situation()
	if err != nil {
		return err
	}
	for _, a := range plan.Next(e.document, s) {
		if len(e.busy) >= Parallel || !e.mayBegin(a) {
			return nil
		}
		if err := e.begin(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// stir tells the loop that an agent changed by itself.
func (e *Engine) stir() {
	select {
	case e.stirred <- struct{}{}:
	default:
	}
}

// leave ends the watching of agents, and the agents themselves if it was asked for and no
// other engine follows in this process.
func (e *Engine) leave(follows bool) {
	e.changes.Wait()
	var all sync.WaitGroup
	for _, u := range e.allUnits() {
		all.Go(func() {
			u.Leave()
			if !e.cfg.StopAgents || e.cfg.Trial || e.leaving != nil || follows {
				return
			}
			if err := u.Stop(); err != nil {
				e.cfg.Log.Error().Err(err).Msg("agent not stopped")
			}
		})
	}
	all.Wait()
	e.sockets.Close() // agents that run have their own
}
