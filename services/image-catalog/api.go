package catalog

import (
	"context"
	"errors"

	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/version"
)

// serve answers requests until ctx is done.
func (c *Catalog) serve(ctx context.Context) error {
	if err := c.prepare(ctx); err != nil {
		return err
	}
	s, err := c.cfg.Conn.NewService(ledger.Catalog, version.Version,
		catalogv1.File_garrison_catalog_v1_catalog_service_proto.Services().ByName("CatalogService"))
	if err != nil {
		return err
	}
	defer s.Close()
	if err := c.handle(s); err != nil {
		return err
	}
	c.cfg.Log.Info().Uint64(logs.Sequence, c.follower.Position()).Msg("serving requests")
	close(c.serving)
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
		bus.Handle(s, "DemoteImage", c.demoteImage),
		fold.Serve(s, c.follower, version.Version),
		s.RefuseUnknown(),
	)
}

// refuse returns a refusal; bus.Service adds the component.
func refuse(kind fault.Kind, code, format string, args ...any) *fault.Error {
	return fault.Refusef(kind, code, format, args...)
}
