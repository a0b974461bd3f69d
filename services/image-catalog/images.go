package catalog

import (
	"cmp"
	"context"
	"slices"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/manifest"
	"github.com/garrison-fleet/garrison/pkg/seal"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/image-catalog/internal/decision"
)

const maxReason = 1024

func (c *Catalog) listImages(
	_ context.Context,
	_ bus.Caller,
	q *catalogv1.ListImagesRequest,
) (r *catalogv1.ListImagesResponse, err error) {
	c.follower.Read(func() {
		part, e := c.view.List(q, c.cfg.Keys...)
		r, err = &catalogv1.ListImagesResponse{Images: part.Rows, NextCursor: part.Next, LeftOut: part.LeftOut}, e
	})
	return r, err
}

func (c *Catalog) getImage(
	ctx context.Context,
	_ bus.Caller,
	q *catalogv1.GetImageRequest,
) (*catalogv1.GetImageResponse, error) {
	i, err := findOrHolding(ctx, c, q)
	if err != nil {
		return nil, err
	}
	return &catalogv1.GetImageResponse{Image: i}, nil
}

// findOrHolding returns the image that a request names, or the first one with the content that it names. All images
// with that content are cut into the same chunks.
func findOrHolding(ctx context.Context, c *Catalog, q *catalogv1.GetImageRequest) (i *imagev1.Image, err error) {
	switch {
	case len(q.Digest) == 0:
		return c.find(ctx, q.Image)
	case q.Image != "":
		return nil, refuse(fault.Invalid, code.Malformed, "the request has an image and a digest, want one of both")
	}
	err = c.decider.Query(ctx, func() error {
		ids := c.view.ByDigest(q.Digest)
		if len(ids) == 0 {
			return refuse(fault.NotFound, code.NoMatch, "no image has content with the digest %x", q.Digest)
		}
		i, _ = c.view.Image(ids[0])
		return nil
	})
	return i, err
}

// createImage is safe to run twice: a repeated manifest returns the existing image.
func (c *Catalog) createImage(
	ctx context.Context,
	caller bus.Caller,
	q *catalogv1.CreateImageRequest,
) (*catalogv1.CreateImageResponse, error) {
	if q.Manifest == nil {
		return nil, refuse(fault.Invalid, code.Malformed, "the request has no manifest")
	}
	if err := manifest.Check(q.Manifest); err != nil {
		return nil, err
	}
	if len(c.cfg.Keys) > 0 {
		if err := seal.Trust(q.Manifest, c.cfg.Keys); err != nil {
			return nil, err
		}
	}
	create := func() ([]ledger.Draft, error) { return decision.Create(c.view, q.Manifest) }
	if err := c.oneAtATime(ctx, func() error { return c.decide(ctx, caller, create) }); err != nil {
		return nil, err
	}
	i, err := c.find(ctx, q.Manifest.Id)
	return &catalogv1.CreateImageResponse{Image: i}, err
}

// oneAtATime lets one request of this catalog create an image at a time: the guard spans all
// images, so concurrent creations would only conflict.
func (c *Catalog) oneAtATime(ctx context.Context, create func() error) error {
	select {
	case c.creating <- struct{}{}:
	case <-ctx.Done():
		return fault.New(fault.Unavailable, "wait for other images to be created: %w", ctx.Err())
	}
	defer func() { <-c.creating }()
	return create()
}

func (c *Catalog) disableImage(
	ctx context.Context,
	caller bus.Caller,
	q *catalogv1.DisableImageRequest,
) (*catalogv1.DisableImageResponse, error) {
	if len(q.Reason) > maxReason {
		return nil, refuse(fault.Invalid, code.Invalid, "the reason has %d bytes, want at most %d",
			len(q.Reason), maxReason)
	}
	i, err := c.change(ctx, caller, q.Image,
		func(id string) ([]ledger.Draft, error) { return decision.Disable(c.view, id, q.Reason) })
	return &catalogv1.DisableImageResponse{Image: i}, err
}

func (c *Catalog) promoteImage(
	ctx context.Context,
	caller bus.Caller,
	q *catalogv1.PromoteImageRequest,
) (*catalogv1.PromoteImageResponse, error) {
	if _, err := c.channel(ctx, q.Channel); err != nil {
		return nil, err
	}
	i, err := c.change(ctx, caller, q.Image,
		func(id string) ([]ledger.Draft, error) { return decision.Promote(c.view, id, q.Channel) })
	if err == nil {
		err = checkOffered(i, q.Channel)
	}
	return &catalogv1.PromoteImageResponse{Image: i}, err
}

func (c *Catalog) demoteImage(
	ctx context.Context,
	caller bus.Caller,
	q *catalogv1.DemoteImageRequest,
) (*catalogv1.DemoteImageResponse, error) {
	channel := cmp.Or(q.Channel, decision.DefaultChannel)
	if _, err := c.channel(ctx, channel); err != nil {
		return nil, err
	}
	absent := false
	i, err := c.change(ctx, caller, q.Image, func(id string) ([]ledger.Draft, error) {
		drafts, err := decision.Demote(c.view, id, channel)
		absent = len(drafts) == 0
		return drafts, err
	})
	return &catalogv1.DemoteImageResponse{Image: i, Absent: absent}, err
}

// checkOffered refuses an image that is not active in a channel, "" is any, after all: the guard of a fact about
// a channel does not span the image, which may have been disabled meanwhile.
func checkOffered(i *imagev1.Image, channel string) error {
	offered := slices.Contains(i.Channels, channel) || channel == "" && len(i.Channels) > 0
	if i.State == imagev1.State_STATE_ACTIVE && offered {
		return nil
	}
	return refuse(fault.Conflict, code.Conflict, "image %s or channel %q was changed meanwhile",
		i.Manifest.Id, channel)
}

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
