// Package catalog is the image-catalog: the service that answers what can be installed. It alone
// writes facts about images and channels, and stores the content of images in chunks.
//
// Guarantees:
//
//  1. A version never changes: an agent, version and platform have one image, however many catalogs
//     receive requests at once.
//  2. An image is activated only after every byte of it was read back from the bus and had the
//     digest of its manifest. If its content is purged at the same moment, because another image
//     that shared it was deleted, the image is disabled again at once.
//  3. A stored chunk always has the digest of a manifest.
//  4. Every request is safe to repeat: what already holds stays as it is. Only a deleted image or
//     channel is not found the second time.
//  5. The answer to a request, and every later request to the same catalog, shows what the request
//     changed. Before a catalog refuses a request, its view catches up with the ledger.
//  6. A server receives chunks of the images that its document names, or named half a minute ago, and no
//     others. However much it requests, it delays no other server by more than its turn.
//
// An upload can be stopped at any time and continued by any client: MissingChunks lists what is left.
package catalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/budget"
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
	"github.com/garrison-fleet/garrison/pkg/version"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"

	"github.com/garrison-fleet/garrison/services/image-catalog/internal/decision"
	"github.com/garrison-fleet/garrison/services/image-catalog/internal/view"
)

// View describes the service's view.
var View = fold.Spec{
	Service: ledger.Catalog, Layout: view.Layout, Nouns: view.Nouns, New: func() fold.View { return view.New() },
}

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
	Limits       budget.Limits    // how many bytes of facts one user may cause in a day
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
	exposed  *exposed
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
		creating: make(chan struct{}, 1),
	}
	c.promote = &promotions{catalog: c, wake: wakeup.New()}
	c.follower = fold.New(cfg.Conn, c.view, fold.Options{
		Service: ledger.Catalog, Layout: view.Layout, Store: cfg.Store, Nouns: view.Nouns,
		AcceptLedger: cfg.AcceptLedger, Log: cfg.Log,
		OnFacts: func(facts []ledger.Fact) { c.promote.noteFacts(facts); c.exposed.noteFacts(facts) },
	})
	c.exposed = newExposed(cfg, c.view, c.follower)
	c.writer = c.follower.NewWriter()
	c.content = &content{
		conn: cfg.Conn, log: cfg.Log, view: c.view, follower: c.follower, checks: newChecks(cfg.Conn, cfg.Now),
	}
	c.download = newDownloads(cfg.Conn, c.content, cfg.Log)
	c.decider = decide.New(decide.Config{
		Service: ledger.Catalog, Ledger: cfg.Conn, View: c.follower, Writer: c.writer, Now: cfg.Now, NewID: cfg.NewID,
		Allow: func(drafts []ledger.Draft) error { return c.view.Writers.Allow(cfg.Limits, drafts, cfg.Now()) },
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
		rungroup.Part{Name: "writer", Run: c.writer.Run, Base: true},
		rungroup.Part{Name: "view", Run: c.follower.Run, Base: true},
		rungroup.Part{Name: "content checks", Run: c.content.checks.run, Base: true},
		rungroup.Part{Name: "downloads", Run: c.follower.WhenReady(c.download.run)},
		rungroup.Part{Name: "promotions", Run: c.follower.WhenReady(c.promote.run)},
		rungroup.Part{Name: "components", Run: c.follower.WhenReady(c.exposed.run)},
		rungroup.Part{Name: "api", Run: c.follower.WhenReady(c.serve)},
	)
}

// serve answers requests until ctx is done.
func (c *Catalog) serve(ctx context.Context) error {
	if err := c.prepare(ctx); err != nil {
		return err
	}
	select {
	case <-c.download.serving: // who is answered may download
	case <-ctx.Done():
		return nil
	}
	return c.follower.Serve(ctx, version.Version,
		catalogv1.File_garrison_catalog_v1_catalog_service_proto.Services().ByName("CatalogService"), c.handle)
}

func (c *Catalog) handle(s *bus.Service) error {
	return errors.Join(
		bus.Handle(s, "ListImages", c.listImages),
		bus.Handle(s, "GetImage", c.getImage),
		bus.Handle(s, "CreateImage", c.createImage),
		bus.Handle(s, "PutChunk", c.putChunk),
		bus.Handle(s, "MissingChunks", c.missingChunks),
		bus.Handle(s, "GetChunk", c.getChunk),
		bus.Handle(s, "ActivateImage", c.activateImage),
		bus.Handle(s, "DisableImage", c.disableImage),
		bus.Handle(s, "DeleteImage", c.deleteImage),
		bus.Handle(s, "ListChannels", c.listChannels),
		bus.Handle(s, "CreateChannel", c.createChannel),
		bus.Handle(s, "DeleteChannel", c.deleteChannel),
		bus.Handle(s, "PromoteImage", c.promoteImage),
		bus.Handle(s, "DemoteImage", c.demoteImage),
		bus.Handle(s, "ListSources", sources{c}.list),
		bus.Handle(s, "AddSource", sources{c}.add),
		bus.Handle(s, "RecordSync", sources{c}.recordSync),
		bus.Handle(s, "RemoveSource", sources{c}.remove),
		bus.Handle(s, "ImportAdvisories", c.exposed.advisories.importPart),
		bus.Handle(s, "ListAdvisories", c.exposed.advisories.list),
		bus.Handle(s, "ListExposed", c.exposed.list),
	)
}

// refuse returns a refusal; bus.Service adds the component.
func refuse(kind fault.Kind, code, format string, args ...any) *fault.Error {
	return fault.Refusef(kind, code, format, args...)
}

const firstPause, lastPause = 100 * time.Millisecond, 5 * time.Second

// prepare does what must precede the first request: it creates the default channel and purges
// orphaned content. It retries until both are done, since the bus may still be starting.
func (c *Catalog) prepare(ctx context.Context) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := c.prepareOnce(ctx)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		c.cfg.Log.Warn().Err(err).Dur("retry_in", pause).Msg("start failed; retrying")
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

func (c *Catalog) prepareOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	create := func() ([]ledger.Draft, error) { return decision.CreateDefaultChannel(c.view), nil }
	if err := c.decide(ctx, bus.Caller{}, create); err != nil {
		return fmt.Errorf("create the default channel: %w", err)
	}
	if err := c.content.purgeOrphans(ctx, c.decider.CatchUp); err != nil {
		return fmt.Errorf("purge orphaned content: %w", err)
	}
	return nil
}
