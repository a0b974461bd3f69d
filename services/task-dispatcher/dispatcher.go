// Package dispatcher is the task-dispatcher: the service that decides when, in what order and how
// fast changes reach the servers, and when to stop trying.
//
// No pass scans the fleet. The view (internal/view) indexes the work that is due, and these parts do
// it side by side, most of them woken whenever the ledger moves:
//
//	lead      takes over when work is due and the leader is idle
//	admit     opens a task for each instance whose generation has none, and for each refresh, and assigns tasks, under
//	          the limit on tasks under way at once; what has to wait is queued
//	clear     ends queued tasks that became outdated
//	expire    ends tasks whose deadline passed
//	publish   writes the documents of servers that changed
//	reports   turns servers' reports into facts about tasks
//
// Guarantees:
//
//  1. A task is opened once, by the leader: its id is computed from what it is about.
//  2. Never more than Config.Concurrency tasks are under way, and of one agent on one server at most
//     one, also while several dispatchers run: a task is opened and leaves the queue only under the
//     last claim, by the process that recorded it, when its view holds all that was recorded under
//     earlier claims and under its own.
//  3. A document is a pure projection of the view. Its generation is a position in the ledger; an
//     older document never replaces a newer one.
//  4. Every task ends: by a report, by its deadline, or because its outcome is no longer wanted.
//  5. Every part may be stopped anywhere and run twice: finished work is in the ledger, and the view
//     finds the rest again.
package dispatcher

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/debug"
	"github.com/garrison-fleet/garrison/pkg/decide"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/metrics"
	"github.com/garrison-fleet/garrison/pkg/noun/task"
	"github.com/garrison-fleet/garrison/pkg/rungroup"
	"github.com/garrison-fleet/garrison/pkg/secret"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/usual"
	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/view"
)

// Defaults of Config.
const (
	DefaultConcurrency    = task.DefaultConcurrency
	DefaultQueuedDeadline = 24 * time.Hour
	DefaultTaskDeadline   = 10 * time.Minute
	DefaultLeastDeadline  = 5 * time.Minute
	DefaultMostDeadline   = time.Hour
	DefaultTakeOverAfter  = time.Second
)

// View describes the service's view.
var View = fold.Spec{
	Service: ledger.Dispatcher, Layout: view.Layout, Nouns: view.Nouns, New: func() fold.View { return view.New(nil) },
}

// Config configures a dispatcher. Only Conn is required; zero values mean the defaults.
type Config struct {
	Conn           *bus.Conn
	Store          string        // a directory for snapshots of the view; empty means that none are kept
	AcceptLedger   bool          // accepts a ledger that lost facts, for this start
	Secrets        *secret.Key   // opens secrets for documents, and seals outputs; nil does neither
	Concurrency    int           // how many tasks are under way at once, at most
	QueuedDeadline time.Duration // how long a task may wait in the queue
	TaskDeadline   time.Duration // how long a task may be under way until that is learnt
	LeastDeadline  time.Duration // and how long at least once it is; TaskDeadline when that is shorter
	MostDeadline   time.Duration // and at most; TaskDeadline when that is longer
	TakeOverAfter  time.Duration // how long the leader may be idle while work is due
	Debug          *debug.State  // takes what a debug socket shows; may be nil
	Metrics        *metrics.Set  // takes what is measured; may be nil
	Log            zerolog.Logger
	Now            func() time.Time // nil means time.Now
	NewID          func() string    // nil means ident.New

	wall func() time.Time // the clock that is compared with that of the bus; nil means time.Now
}

func (c Config) withDefaults() Config {
	if c.Concurrency <= 0 {
		c.Concurrency = DefaultConcurrency
	}
	if c.QueuedDeadline <= 0 {
		c.QueuedDeadline = DefaultQueuedDeadline
	}
	if c.TaskDeadline <= 0 {
		c.TaskDeadline = DefaultTaskDeadline
	}
	if c.LeastDeadline <= 0 {
		c.LeastDeadline = DefaultLeastDeadline
	}
	if c.MostDeadline <= 0 {
		c.MostDeadline = DefaultMostDeadline
	}
	if c.TakeOverAfter <= 0 {
		c.TakeOverAfter = DefaultTakeOverAfter
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.wall == nil {
		c.wall = time.Now
	}
	if c.NewID == nil {
		c.NewID = ident.New
	}
	return c
}

// bounds returns the bounds on how long a task may be under way.
func (c Config) bounds() usual.Bounds {
	return usual.Bounds{
		Least: min(c.LeastDeadline, c.TaskDeadline), Most: max(c.MostDeadline, c.TaskDeadline), Unknown: c.TaskDeadline,
	}
}

// Dispatcher is the service.
type Dispatcher struct {
	cfg       Config
	view      *view.View
	follower  *fold.Follower
	writer    *bus.Writer
	decider   *decide.Decider
	recorder  *recorder
	leader    *leader
	reserved  *reservations
	lanes     *lanes
	clock     *busClock
	live      *liveReports
	publisher *publisher
	reports   *reports
	api       *api

	deadlineChecks atomic.Int64 // how often deadlines were checked
}

// New returns a dispatcher. Nothing happens until Run.
func New(cfg Config) (*Dispatcher, error) {
	if cfg.Conn == nil {
		return nil, fault.New(fault.Invalid, "task-dispatcher: no connection")
	}
	cfg = cfg.withDefaults()
	d := &Dispatcher{cfg: cfg, reserved: newReservations()}
	documents := newQueue()
	d.view = view.New(documents.add)
	d.follower = fold.New(cfg.Conn, d.view, fold.Options{
		Service: ledger.Dispatcher, Layout: view.Layout, Store: cfg.Store, Nouns: view.Nouns,
		AcceptLedger: cfg.AcceptLedger, Log: cfg.Log, OnFacts: func(facts []ledger.Fact) {
			d.lanes.wake()
			measureEnds(cfg.Metrics, facts)
		},
	})
	d.writer = d.follower.NewWriter()
	d.decider = decide.New(decide.Config{
		Service: ledger.Dispatcher, Ledger: cfg.Conn, View: d.follower, Writer: d.writer,
		Now: cfg.Now, NewID: cfg.NewID,
	})
	d.lanes = &lanes{follower: d.follower, log: cfg.Log}
	d.recorder = &recorder{writer: d.writer, follower: d.follower}
	d.leader = newLeader(cfg, d.view, d.follower, d.decider)
	d.clock = newBusClock(cfg)
	d.live = newLiveReports(cfg, d.view, d.follower)
	d.publisher = newPublisher(cfg, d.view, d.follower, documents)
	d.reports = &reports{cfg: cfg, view: d.view, decider: d.decider, clock: d.clock}
	d.api = &api{
		cfg: cfg, view: d.view, follower: d.follower, decider: d.decider,
		leader: d.leader, reserved: d.reserved, live: d.live,
	}
	d.show(cfg.Debug, documents)
	d.measure(cfg.Metrics, documents)
	return d, nil
}

// show adds the view and the lengths of the queues to a debug state.
func (d *Dispatcher) show(s *debug.State, documents *queue) {
	d.follower.Show(s)
	s.Set("queues", func() any { return d.queues(documents) })
}

// Run dispatches until ctx is done or a part fails.
func (d *Dispatcher) Run(ctx context.Context) error {
	return rungroup.Run(ctx,
		rungroup.Part{Name: "writer", Run: d.writer.Run, Base: true},
		rungroup.Part{Name: "view", Run: d.follower.Run, Base: true},
		d.lanes.part("lead", d.leader.newTakeOver()),
		d.lanes.part("admit", d.admit),
		d.lanes.part("clear", d.clear),
		d.lanes.part("expire", d.newExpirer()),
		rungroup.Part{Name: "publish", Run: d.follower.WhenReady(d.publisher.run)},
		rungroup.Part{Name: "reports", Run: d.follower.WhenReady(d.reports.run)},
		rungroup.Part{Name: "live reports", Run: d.follower.WhenReady(d.live.run)},
		rungroup.Part{Name: "api", Run: d.follower.WhenReady(d.api.serve)},
	)
}
