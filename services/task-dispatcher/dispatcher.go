package dispatcher

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/lifecycle"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/view"
)

// Defaults of Config.
const (
	DefaultConcurrency    = 20
	DefaultQueuedDeadline = 24 * time.Hour
	DefaultTaskDeadline   = 10 * time.Minute
	DefaultTakeOverAfter  = time.Second
)

// Layout is the version of the view's layout.
const Layout = view.Layout

// Nouns are the nouns that the view hears.
var Nouns = view.Nouns

// NewView makes an empty view, to be folded afresh.
func NewView() fold.View { return view.New(nil) }

// Config says how the dispatcher works. Zero values mean the defaults.
type Config struct {
	Conn           *bus.Conn
	Store          string        // a directory for snapshots of the view; empty means none
	AcceptLedger   bool          // takes a ledger that lost facts as it is, for this start
	Concurrency    int           // how many tasks are under way at once, at most
	QueuedDeadline time.Duration // how long a task may wait for its turn
	TaskDeadline   time.Duration // how long a task may be under way
	TakeOverAfter  time.Duration // how long another dispatcher may do nothing while there is something to admit
	Log            zerolog.Logger
	Now            func() time.Time
	NewID          func() string

	wall func() time.Time // the clock that is compared with the bus's; nil means time.Now
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

// Dispatcher is the running service.
type Dispatcher struct {
	Config
	view    *view.View
	fold    *fold.Follower
	writer  *bus.Writer
	process string        // names this start of the service in its claims
	doubted atomic.Uint64 // the last claim that is not relied on any more
	overdue atomic.Bool   // there are queued tasks to end whose deadline passed, and no claim to do it under
	moving  *moving
	clock   busClock
	dirty   *queue // servers whose document must be looked at
	kicks   []chan struct{}
	words   *words // what servers said live of the tasks that are under way
}

// New makes a dispatcher. Nothing happens until Run.
func New(c Config) *Dispatcher {
	d := &Dispatcher{Config: c.withDefaults(), process: ident.New(), moving: newMoving(), dirty: newQueue(), words: newWords()}
	d.view = view.New(d.dirty.add)
	d.fold = fold.New(c.Conn, d.view, fold.Options{
		Service: ledger.Dispatcher, Layout: Layout, Store: c.Store, Nouns: Nouns,
		AcceptLedger: c.AcceptLedger, Log: c.Log, OnFacts: func([]ledger.Fact) { d.kick() },
	})
	d.writer = d.fold.NewWriter()
	return d
}

// Run dispatches until ctx is done.
func (d *Dispatcher) Run(ctx context.Context) error {
	opening, claiming, admitting, expiring := d.lane(), d.lane(), d.lane(), d.lane()
	return lifecycle.Run(ctx,
		lifecycle.Part{Name: "writer", Run: d.writer.Run},
		lifecycle.Part{Name: "fold", Run: d.fold.Run},
		lifecycle.Part{Name: "open", Run: func(ctx context.Context) error { return d.repeat(ctx, "open", opening, d.open) }},
		lifecycle.Part{Name: "claim", Run: func(ctx context.Context) error { return d.repeat(ctx, "claim", claiming, d.newClaimer()) }},
		lifecycle.Part{Name: "admit", Run: func(ctx context.Context) error { return d.repeat(ctx, "admit", admitting, d.admit) }},
		lifecycle.Part{Name: "expire", Run: func(ctx context.Context) error { return d.repeat(ctx, "expire", expiring, d.newExpirer()) }},
		lifecycle.Part{Name: "publish", Run: d.publish},
		lifecycle.Part{Name: "hear", Run: d.hear},
		lifecycle.Part{Name: "listen", Run: d.listen},
		lifecycle.Part{Name: "api", Run: d.serve},
	)
}

// ready waits until the view holds what is in the ledger; false when ctx is done before.
func (d *Dispatcher) ready(ctx context.Context) bool {
	select {
	case <-d.fold.Ready():
		return true
	case <-ctx.Done():
		return false
	}
}
