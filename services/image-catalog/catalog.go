package catalog

import (
	"context"
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
	"github.com/garrison-fleet/garrison/pkg/rungroup"
	"github.com/garrison-fleet/garrison/pkg/seal"
	"github.com/garrison-fleet/garrison/pkg/wakeup"

	"github.com/garrison-fleet/garrison/services/image-catalog/internal/view"
)

// Config configures a catalog. Only Conn is required.
type Config struct {
	Conn         *bus.Conn
	Store        string       // a directory for snapshots of the view; empty means that none are kept
	AcceptLedger bool         // accepts a ledger that lost facts, for this start
	Debug        *debug.State // takes what a debug socket shows; may be nil
	Metrics      *metrics.Set // takes what is measured; may be nil
	Log          zerolog.Logger
	Now          func() time.Time // nil means time.Now
	NewID        func() string    // nil means ident.New
	Keys         seal.Keys        // an image must be signed by one of them; empty means that signatures are optional
}

// Catalog is the service.
type Catalog struct {
	cfg      Config
	view     *view.View
	follower *fold.Follower
	writer   *bus.Writer
	decider  *decide.Decider
	content  *content
	download *downloads
	promote  *promotions
	serving  chan struct{} // closed once requests are answered
	creating chan struct{} // held by the one request that creates an image
}

// New returns a catalog. Nothing happens until Run.
func New(cfg Config) (*Catalog, error) {
	if cfg.Conn == nil {
		return nil, fault.New(fault.Invalid, "image-catalog: no connection")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.NewID == nil {
		cfg.NewID = ident.New
	}
	c := &Catalog{
		cfg: cfg, view: view.New(),
		serving: make(chan struct{}), creating: make(chan struct{}, 1),
	}
	c.promote = &promotions{catalog: c, wake: wakeup.New()}
	c.follower = fold.New(cfg.Conn, c.view, fold.Options{
		Service: ledger.Catalog, Layout: view.Layout, Store: cfg.Store, Nouns: view.Nouns,
		AcceptLedger: cfg.AcceptLedger, Log: cfg.Log, OnFacts: c.promote.noteFacts,
	})
	c.writer = c.follower.NewWriter()
	c.content = &content{
		conn: cfg.Conn, log: cfg.Log, view: c.view, follower: c.follower, checks: newChecks(cfg.Conn, cfg.Now),
	}
	c.download = newDownloads(cfg.Conn, c.content, cfg.Log)
	c.decider = decide.New(decide.Config{
		Service: ledger.Catalog, Ledger: cfg.Conn, View: c.follower, Writer: c.writer, Now: cfg.Now, NewID: cfg.NewID,
	})
	c.follower.Show(cfg.Debug)
	cfg.Debug.Set("queues", func() any { return c.queues() })
	c.follower.Measure(cfg.Metrics)
	c.writer.Measure(cfg.Metrics)
	cfg.Metrics.Gauge(metrics.QueueDepth, func(context.Context) []metrics.Sample { return metrics.By(c.queues()) })
	cfg.Debug.Set("downloads", c.download.show)
	return c, nil
}

// queues returns how much waits in each queue.
func (c *Catalog) queues() map[string]int { return map[string]int{"appends": c.writer.Waiting()} }

// Run serves until ctx is done or a part fails.
func (c *Catalog) Run(ctx context.Context) error {
	return rungroup.Run(ctx,
		rungroup.Part{Name: "writer", Run: c.writer.Run},
		rungroup.Part{Name: "view", Run: c.follower.Run},
		rungroup.Part{Name: "content checks", Run: c.content.checks.run},
		rungroup.Part{Name: "downloads", Run: c.follower.WhenReady(c.download.run)},
		rungroup.Part{Name: "promotions", Run: c.follower.WhenReady(c.promote.run)},
		rungroup.Part{Name: "api", Run: c.follower.WhenReady(c.serve)},
	)
}
