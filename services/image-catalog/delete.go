package catalog

import (
	"context"

	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ledger"

	"github.com/garrison-fleet/garrison/services/image-catalog/internal/decision"
)

// deleteImage deletes an image and, unless another image shares it, its content. The fact comes
// first: content that remains after a crash between the two is purged at the next start.
func (c *Catalog) deleteImage(
	ctx context.Context,
	caller bus.Caller,
	q *catalogv1.DeleteImageRequest,
) (*catalogv1.DeleteImageResponse, error) {
	i, err := c.find(ctx, q.Image)
	if err != nil {
		return nil, err
	}
	id, digest := i.Manifest.Id, i.Manifest.Blob.Digest
	remove := func() ([]ledger.Draft, error) { return unlessGone(decision.Delete(c.view, id, q.IfSince)) }
	if err := c.decide(ctx, caller, remove); err != nil {
		return nil, err
	}
	if c.content.isUsed(digest) {
		return &catalogv1.DeleteImageResponse{}, nil
	}
	if err := c.content.purge(ctx, digest); err != nil {
		return nil, err
	}
	return &catalogv1.DeleteImageResponse{}, c.disableUndermined(ctx, caller, digest)
}

// disableUndermined disables images that were activated while their content was purged.
func (c *Catalog) disableUndermined(ctx context.Context, caller bus.Caller, digest []byte) error {
	if err := c.decider.CatchUp(ctx); err != nil {
		return err
	}
	for _, id := range c.content.imagesOf(digest) {
		if err := c.disableLost(ctx, caller, id); err != nil {
			return err
		}
	}
	return nil
}
