package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/healing"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/lineage"
	"github.com/garrison-fleet/garrison/services/executor/internal/plan"
	"github.com/garrison-fleet/garrison/services/executor/internal/steps"
	"github.com/garrison-fleet/garrison/services/executor/internal/store"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// Parallel is how many changes are under way at most, without those that are deferred.
const Parallel = 4

// Engine is the half of the executor that changes the server.
type Engine struct {
	cfg     Config
	rooms   rooms
	life    *steps.ServerLife
	reports *reporter
	tasks   tasks
	doubts  *doubts
	driver  *driver
	machine *machine
	scans   *requests
	ahead   *requests
	answers chan answer    // of scans and ahead
	running sync.WaitGroup // changes, and looks beside the loop

	offers   chan *desiredv1.Document // the newest document that was not taken yet
	heard    *heard                   // the document that was offered last
	ended    chan changeEnd           // changes that have ended
	ready    chan struct{}            // closed when everything is taken over
	leaveFor chan error               // the program that is to take this process's place
	changed  wakeup.Signal            // an agent changed by itself
	checked  chan struct{}            // the agents' health was checked
	turns    chan struct{}            // answered when the loop turns

	// Owned by Run's goroutine.
	document *desiredv1.Document
	busy     map[string]bool
	checking bool             // the agents' health
	proving  <-chan time.Time // when restarted agents are probed before the next check; nil for none
	damage   *healing.Damage
	patience lineage.Patience
	shown    lineage.Relation // why documents are not taken, as it was shown
	alone    string           // the agent whose change is, or was last, the executor's own
	leaving  error            // a *HandOver or *Become
}

// New returns an engine.
func New(cfg Config) *Engine {
	cfg = cfg.withDefaults()
	e := &Engine{
		cfg: cfg, life: steps.NewServerLife(), changed: wakeup.New(),
		offers: make(chan *desiredv1.Document, 1), ended: make(chan changeEnd, Parallel),
		ready: make(chan struct{}), leaveFor: make(chan error, 1),
		checked: make(chan struct{}), turns: make(chan struct{}), answers: make(chan answer),
		heard: newHeard(), busy: map[string]bool{}, damage: healing.NewDamage(min(topology.HealAfter, cfg.CheckEvery)),
	}
	e.rooms = newRooms(cfg, e.changed.Wake)
	e.reports = &reporter{
		server: cfg.ServerID, boot: cfg.BootID, journal: cfg.Journal, observe: e.rooms.observe,
	}
	e.tasks = tasks{version: cfg.Version, reports: e.reports}
	e.doubts = &doubts{
		journal: cfg.Journal, observe: e.rooms.observe, settles: !cfg.Trial, changed: cfg.Doubted, log: cfg.Log,
	}
	set := newSteps(cfg, e.rooms, e.life, e.reports, e.leave, e.doubts.why)
	e.driver = newDriver(cfg, e.rooms, e.life, set, e.reports)
	e.driver.become = func(r *steps.Run) error { return becomeInstalled(cfg.Self, e.rooms.specs, e.leave, r) }
	e.machine = &machine{
		read: cfg.Sysinfo, purge: e.rooms.images.GiveUpAll, boot: cfg.BootID, rest: cfg.LookRest, tasks: e.tasks,
		spawn: e.running.Go, results: make(chan reading),
	}
	e.scans = e.newRequests("scan", isScan, answerScan(cfg, e.reports))
	e.ahead = e.newRequests("ahead", isAhead, fetchAhead(steps.Ahead{
		Steps: set.bring, Trust: cfg.Trust,
		NewRun: func(rec *change.Record) *steps.Run { return e.driver.newRun(rec, false) },
	}))
	return e
}

// newRequests returns what answers the requests of a kind.
func (e *Engine) newRequests(
	kind string, is func(*desiredv1.Request) bool, do func(context.Context, *desiredv1.Request) reply,
) *requests {
	return &requests{kind: kind, is: is, do: do, tasks: e.tasks, spawn: e.running.Go, answers: e.answers}
}

// Ready is closed when Run has recovered: the journal was read and the agents taken over.
func (e *Engine) Ready() <-chan struct{} { return e.ready }

// Doubt compares the inventory with the server, if the journal was ever lost, and returns what
// keeps the inventory from being trusted.
func (e *Engine) Doubt() (Doubt, error) { return e.doubts.check() }

// Turn returns when Run's loop has come to its beginning again, or ctx is done.
func (e *Engine) Turn(ctx context.Context) error {
	select {
	case e.turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run recovers and then converges until ctx is done, which is no error, or until another
// process is to take this one's place: then it returns a *HandOver or a *Become. Once the
// server is dead and its agents are gone it only watches. An error is journal.ErrDamaged when
// the journal can no longer be used: then every agent runs on.
func (e *Engine) Run(ctx context.Context) (err error) {
	for _, dir := range []string{e.cfg.Root.Agents(), e.cfg.Root.Images(), e.cfg.Root.Cache()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make %s: %w", dir, err)
		}
	}
	defer func() { e.shutDown(errors.Is(err, journal.ErrDamaged)) }()
	ctx, stop := context.WithCancel(ctx)
	defer stop()                         // first: the next start goes on with whatever is under way
	if _, err := e.Doubt(); err != nil { // so that it is known before anything asks
		return err
	}
	if err := e.recallPolicy(); err != nil {
		return err
	}
	recovery := recovery{e.cfg, e.rooms, e.driver, e.heard, steps.Sweep{
		Root: e.cfg.Root, Images: e.rooms.images, Configs: e.rooms.configs, Journal: e.cfg.Journal,
	}}
	if err := recovery.run(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	if e.leaves() {
		return e.leaving
	}
	if err := e.reports.sayAgents("", true); err != nil { // whatever was reported before
		return err
	}
	close(e.ready)
	e.cfg.FailPoint("recovered")
	return e.loop(ctx)
}

// journalEvery is how often the journal's file is looked for.
const journalEvery = time.Second

func (e *Engine) loop(ctx context.Context) error {
	check, look, file := time.NewTicker(e.cfg.CheckEvery), time.NewTicker(e.cfg.LookEvery), time.NewTicker(journalEvery)
	defer check.Stop()
	defer look.Stop()
	defer file.Stop()
	due := ticks{check: check.C, look: look.C, file: file.C}
	looks, stop := context.WithCancel(ctx)
	defer stop() // nothing waits for a look when another program takes over
	e.beginLooks(looks)
	for {
		if end, err := e.next(ctx, looks, due); end || err != nil {
			return err
		}
	}
}

// ticks are the channels of the loop's tickers.
type ticks struct{ check, look, file <-chan time.Time }

// next waits for what happens next and handles it. It reports whether the loop ends.
func (e *Engine) next(ctx, looks context.Context, due ticks) (end bool, err error) {
	select {
	case <-ctx.Done():
		return true, nil
	case d := <-e.offers:
		err = e.offered(ctx, looks, d)
	case c := <-e.ended:
		err = e.changeEnded(ctx, looks, c)
	case <-e.turns:
	case <-e.changed.C():
		err = e.agentsChanged(ctx)
	case <-due.check:
		err = e.check(ctx, looks)
	case <-e.proving:
		e.proving = nil
		e.checkHealth(looks, false)
	case <-e.checked:
		e.checking = false
		err = errors.Join(e.restartHung(), e.agentsChanged(ctx))
	case <-due.file:
		err = e.cfg.Journal.Here()
	case <-due.look:
		e.machine.look(looks)
	case r := <-e.machine.results:
		err = e.machine.answer(looks, e.document, r)
	case answer := <-e.answers:
		err = answer(looks, e.document)
	}
	return e.endsAfter(ctx, err)
}

// beginLooks looks at the machine, and begins to read the content of images.
func (e *Engine) beginLooks(looks context.Context) {
	e.machine.look(looks)
	if !e.cfg.Trial {
		e.running.Go(func() { e.readContent(looks) })
	}
}

// endsAfter reports whether the loop ends after something was handled with an error or none.
func (e *Engine) endsAfter(ctx context.Context, err error) (bool, error) {
	if err != nil {
		return true, err
	}
	return e.ends(ctx)
}

// offered handles a document that the link read.
func (e *Engine) offered(ctx, looks context.Context, d *desiredv1.Document) error {
	if err := e.take(ctx, d); err != nil {
		return err
	}
	err := errors.Join(e.machine.lookFor(looks, e.document), e.scans.begin(looks, e.document))
	if e.dead() || e.cfg.Trial || e.leaves() {
		return err
	}
	return errors.Join(err, e.ahead.begin(looks, e.document))
}

// agentsChanged handles a wake-up: an agent's process changed its state, or the health of all was checked. What it
// finds damaged is healed when its report says so: HealAfter from now, and not from the next check.
func (e *Engine) agentsChanged(ctx context.Context) error {
	if err := e.reports.sayAgents("", false); err != nil {
		return err
	}
	if err := errors.Join(e.continueStopped(), e.proveSoon()); err != nil {
		return err
	}
	return e.converge(ctx)
}

// changeEnded handles the end of a change.
func (e *Engine) changeEnded(ctx, looks context.Context, c changeEnd) error {
	if c.err != nil {
		return c.err
	}
	delete(e.busy, c.agent)
	e.rooms.deferrals.ended(c.agent)
	_, err := e.Doubt()
	if err == nil {
		err = e.converge(ctx)
	}
	if len(e.busy) == 0 { // once for all that ended together
		e.machine.look(looks)
	}
	return err
}

// check begins a health check, and tries again what could not be done before.
func (e *Engine) check(ctx, looks context.Context) error {
	e.checkHealth(looks, true)
	if _, err := e.Doubt(); err != nil {
		return err
	}
	if _, err := e.emptyTrash(); err != nil {
		return err
	}
	if err := e.continueStopped(); err != nil {
		return err
	}
	return e.converge(ctx)
}

// ends reports whether the loop ends for another program. On a dead server it removes agents.
func (e *Engine) ends(ctx context.Context) (bool, error) {
	switch {
	case e.cfg.Trial:
	case e.leaves():
		if len(e.busy) == 0 {
			return true, e.leaving
		}
	case e.dead():
		return false, e.reap(ctx)
	}
	return false, nil
}

// emptyTrash tries again to delete what removals could not, except of an agent that is being
// changed. An executor on trial leaves it to the one that runs after it.
func (e *Engine) emptyTrash() (left int, err error) {
	if e.cfg.Trial {
		return 0, nil
	}
	return e.rooms.trash.Empty(func(agent string) bool { return !e.busy[agent] })
}

// converge begins the changes that may begin now. With none left, it empties a server that is being reinstalled.
func (e *Engine) converge(ctx context.Context) error {
	if e.document == nil || e.dead() || e.cfg.Trial || e.leaves() {
		return nil
	}
	s, err := e.situation()
	if err != nil {
		return err
	}
	for _, a := range plan.Next(e.document, s) {
		if !e.mayBegin(a) || !e.rooms.deferrals.Take(a.Agent()) {
			return nil
		}
		if err := e.begin(ctx, a); err != nil {
			return err
		}
	}
	return e.reset()
}

// shutDown ends the watching of agents, and the agents themselves if that is configured and no
// other engine follows in this process.
func (e *Engine) shutDown(follows bool) {
	e.running.Wait()
	var all sync.WaitGroup
	for _, u := range e.rooms.processes.All() {
		all.Go(func() {
			u.Leave()
			guest, ok := u.(supervise.Guest) // its process does not end with this one
			if !e.cfg.StopAgents || e.cfg.Trial || e.leaving != nil || follows || ok && guest.IsGuest() {
				return
			}
			if err := u.Stop(); err != nil {
				e.cfg.Log.Error().Err(err).Msg("agent not stopped")
			}
		})
	}
	all.Wait()
	e.rooms.sockets.Close() // agents that run have their own
}

// Seen returns the sum of the last list of agents that was reported, and when the last look began that found the same;
// zero before the first.
func (e *Engine) Seen() (instance.Sum, time.Time) { return e.reports.seen() }

// Status is what the engine reports about itself.
type Status struct {
	Applied uint64
	Outbox  int
	Agents  []*reportv1.Found
	Steps   map[string]taskv1.Step // what is being done, by agent
	Busy    []string               // the critical sections that last
	Ahead   []string               // the images that were fetched ahead of their changes
}

// Status looks at the server's agents as they are now, except for the files of images: their last look may
// be two health checks old. What is unmanaged is as of the last check.
func (e *Engine) Status() (Status, error) {
	agents, err := e.rooms.observe.Recently(e.reports.reported())
	if err != nil {
		return Status{}, err
	}
	s := Status{Agents: agents, Steps: e.driver.showing()}
	if s.Busy, err = e.Busy(); err != nil {
		return s, err
	}
	return s, e.cfg.Journal.Read(func(tx *journal.Tx) error {
		s.Applied, s.Outbox, s.Ahead = tx.Applied(), tx.OutboxLength(), store.AheadWords(tx)
		return nil
	})
}
