package catalog

import (
	"cmp"
	"context"
	"errors"

	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/services/image-catalog/internal/view"
)

// lostContent is why an image is disabled whose content went while it was activated.
const lostContent = "its content was deleted together with another image; upload it again and activate it"

// activateImage lets an image be installed. It is safe to run twice: an active image
// that is in the channel is left alone. A disabled image is checked again.
func (c *Catalog) activateImage(ctx context.Context, caller bus.Caller, q *catalogv1.ActivateImageRequest) (*catalogv1.ActivateImageResponse, error) {
	channel := cmp.Or(q.Channel, view.DefaultChannel)
	if err := c.knowChannel(ctx, channel); err != nil {
		return nil, err
	}
	i, err := c.find(ctx, q.Image)
	if err != nil {
		return nil, err
	}
	idle := i.State != imagev1.State_STATE_ACTIVE
	if idle {
		if err := c.checkContent(ctx, i); err != nil {
			return nil, err
		}
	}
	i, err = c.change(ctx, caller, i.Manifest.Id, func(id string) ([]ledger.Draft, error) { return c.view.Activate(id, channel, idle) })
	if err == nil {
		err = offered(i, channel)
	}
	if err == nil && idle {
		err = c.stillWhole(ctx, caller, i)
	}
	return &catalogv1.ActivateImageResponse{Image: i}, err
}

// checkContent refuses an image whose content is not whole.
func (c *Catalog) checkContent(ctx context.Context, i *imagev1.Image) error {
	missing, err := missingOf(ctx, c.conn, i.Manifest.Blob)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return incomplete(i, len(missing))
	}
	err = c.checks.whole(ctx, i.Manifest.Blob)
	switch {
	case errors.Is(err, errCorrupt):
		return c.corrupt(ctx, i)
	case fault.Is(err, fault.NotFound):
		return incomplete(i, 1)
	}
	return err
}

func incomplete(i *imagev1.Image, missing int) error {
	m := i.Manifest
	return refuse(fault.Conflict, "INCOMPLETE", "image %s (%s %s) lacks %d of %d chunks; send them, then activate it", m.Id, m.Agent, m.Version, missing, len(m.Blob.ChunkDigests))
}

// corrupt purges content that is not what the manifest says, so that it can be sent again.
func (c *Catalog) corrupt(ctx context.Context, i *imagev1.Image) error {
	m := i.Manifest
	c.log.Error().Str(logs.Image, m.Id).Hex("digest", m.Blob.Digest).Msg("stored content is corrupt")
	if err := c.conn.Purge(ctx, topology.Blobs, topology.BlobSubjects(m.Blob.Digest)); err != nil {
		return err
	}
	return refuse(fault.Conflict, "CORRUPT", "the stored content of image %s (%s %s) did not have the digest of its manifest and was purged; send all %d chunks again", m.Id, m.Agent, m.Version, len(m.Blob.ChunkDigests))
}

// stillWhole disables an image again whose content went between the check and the
// facts: another catalog deleted the last image that shared it, and did not know of
// this one yet. Whoever deletes looks as well, after the purge: see undermined.
func (c *Catalog) stillWhole(ctx context.Context, caller bus.Caller, i *imagev1.Image) error {
	missing, err := missingOf(ctx, c.conn, i.Manifest.Blob)
	if err != nil || len(missing) == 0 {
		return err
	}
	if err := c.disableLost(ctx, caller, i.Manifest.Id); err != nil {
		return err
	}
	return incomplete(i, len(missing))
}

func (c *Catalog) disableLost(ctx context.Context, caller bus.Caller, id string) error {
	return c.settle(ctx, caller, func() ([]ledger.Draft, error) {
		if i, ok := c.view.Image(id); !ok || i.State != imagev1.State_STATE_ACTIVE {
			return nil, nil
		}
		return c.view.Disable(id, lostContent)
	})
}

// deleteImage deletes an image and, when no other has it, its content. The fact comes
// first: what is left after a crash between the two is swept at the next start.
func (c *Catalog) deleteImage(ctx context.Context, caller bus.Caller, q *catalogv1.DeleteImageRequest) (*catalogv1.DeleteImageResponse, error) {
	i, err := c.find(ctx, q.Image)
	if err != nil {
		return nil, err
	}
	id, digest := i.Manifest.Id, i.Manifest.Blob.Digest
	if err := c.settle(ctx, caller, func() ([]ledger.Draft, error) { return goneIsDone(c.view.Delete(id)) }); err != nil {
		return nil, err
	}
	if c.hasImage(digest) {
		return &catalogv1.DeleteImageResponse{}, nil
	}
	if err := c.conn.Purge(ctx, topology.Blobs, topology.BlobSubjects(digest)); err != nil {
		return nil, err
	}
	return &catalogv1.DeleteImageResponse{}, c.undermined(ctx, caller, digest)
}

// undermined disables images that were activated with content that is purged now.
func (c *Catalog) undermined(ctx context.Context, caller bus.Caller, digest []byte) error {
	if err := c.catchUp(ctx); err != nil {
		return err
	}
	for _, id := range c.sharing(digest) {
		if err := c.disableLost(ctx, caller, id); err != nil {
			return err
		}
	}
	return nil
}
