package catalog

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"

	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/lifecycle"
	"github.com/garrison-fleet/garrison/pkg/seal"
	"github.com/garrison-fleet/garrison/pkg/version"
	"github.com/garrison-fleet/garrison/services/image-catalog/internal/view"
)

// Config says with what a catalog works.
type Config struct {
	Conn  *bus.Conn
	Store string // a directory for snapshots of the view; empty means none are kept
	// AcceptLedger takes a ledger that lost facts as it is, for this start.
	AcceptLedger bool
	Log          zerolog.Logger
	Now          func() time.Time // nil means the machine's clock
	NewID        func() string    // nil means ident.New
	Keys         seal.Keys        // an image must be signed by one of them; none means that it need not be signed
}

// Catalog is the service.
type Catalog struct {
	conn      *bus.Conn
	log       zerolog.Logger
	now       func() time.Time
	newID     func() string
	keys      seal.Keys
	view      *view.View
	follower  *fold.Follower
	writer    *bus.Writer
	checks    *checks
	answering chan struct{} // closed once requests are answered
	create    chan struct{} // held by the one request that creates an image
}

// New makes a catalog. Nothing happens until Run.
func New(c Config) (*Catalog, error) {
	if c.Conn == nil {
		return nil, errors.New("image-catalog: no connection")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.NewID == nil {
		c.NewID = ident.New
	}
	v := view.New()
	follower := fold.New(c.Conn, v, fold.Options{
		Service: ledger.Catalog, Layout: view.Layout, Store: c.Store, Nouns: view.Nouns,
		AcceptLedger: c.AcceptLedger, Log: c.Log,
	})
	return &Catalog{
		conn: c.Conn, log: c.Log, now: c.Now, newID: c.NewID, keys: c.Keys, view: v,
		follower:  follower,
		writer:    follower.NewWriter(),
		checks:    newChecks(c.Conn, c.Now),
		create:    make(chan struct{}, 1),
		answering: make(chan struct{}),
	}, nil
}

// Run answers until ctx is done.
func (c *Catalog) Run(ctx context.Context) error {
	return lifecycle.Run(ctx,
		lifecycle.Part{Name: "fold", Run: c.follower.Run},
		lifecycle.Part{Name: "writer", Run: c.writer.Run},
		lifecycle.Part{Name: "checks", Run: c.checks.run},
		lifecycle.Part{Name: "answers", Run: c.answer},
	)
}

// answer serves once the view is whole and the default channel is there.
func (c *Catalog) answer(ctx context.Context) error {
	select {
	case <-c.follower.Ready():
	case <-ctx.Done():
		return nil
	}
	if err := c.begin(ctx); err != nil {
		return err
	}
	s, err := c.conn.NewService(ledger.Catalog, version.Version, catalogv1.File_garrison_catalog_v1_catalog_service_proto.Services().ByName("CatalogService"))
	if err != nil {
		return err
	}
	defer s.Close()
	if err := c.handle(s); err != nil {
		return err
	}
	c.log.Info().Uint64("sequence", c.follower.Position()).Msg("answering")
	close(c.answering)
	<-ctx.Done()
	return nil
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
		fold.Serve(s, c.follower, version.Version),
		s.RefuseUnknown(),
	)
}
