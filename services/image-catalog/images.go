package catalog

import (
	"context"
	"slices"

	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/image"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/seal"
)

func (c *Catalog) listImages(_ context.Context, _ bus.Caller, q *catalogv1.ListImagesRequest) (r *catalogv1.ListImagesResponse, err error) {
	r = &catalogv1.ListImagesResponse{}
	c.follower.Read(func() { r.Images, r.NextCursor, err = c.view.List(q) })
	return r, err
}

func (c *Catalog) getImage(ctx context.Context, _ bus.Caller, q *catalogv1.GetImageRequest) (*catalogv1.GetImageResponse, error) {
	i, err := c.find(ctx, q.Image)
	if err != nil {
		return nil, err
	}
	return &catalogv1.GetImageResponse{Image: i}, nil
}

// createImage is safe to run twice: the same manifest again gives the image that is there.
func (c *Catalog) createImage(ctx context.Context, caller bus.Caller, q *catalogv1.CreateImageRequest) (*catalogv1.CreateImageResponse, error) {
	if q.Manifest == nil {
		return nil, refuse(fault.Invalid, "MALFORMED", "the request has no manifest")
	}
	if err := image.Check(q.Manifest); err != nil {
		return nil, err
	}
	if len(c.keys) > 0 {
		if err := seal.Trust(q.Manifest, c.keys); err != nil {
			return nil, err
		}
	}
	err := c.creating(ctx, func() error {
		return c.settle(ctx, caller, func() ([]ledger.Draft, error) { return c.view.Create(q.Manifest) })
	})
	if err != nil {
		return nil, err
	}
	i, err := c.look(q.Manifest.Id)
	return &catalogv1.CreateImageResponse{Image: i}, err
}

// creating lets one request of this catalog at a time create an image: the guard spans
// all images, so two at once could only be in each other's way.
func (c *Catalog) creating(ctx context.Context, f func() error) error {
	select {
	case c.create <- struct{}{}:
	case <-ctx.Done():
		return fault.New(fault.Unavailable, "wait for other images to be created: %w", ctx.Err())
	}
	defer func() { <-c.create }()
	return f()
}

func (c *Catalog) disableImage(ctx context.Context, caller bus.Caller, q *catalogv1.DisableImageRequest) (*catalogv1.DisableImageResponse, error) {
	if len(q.Reason) > 1024 {
		return nil, refuse(fault.Invalid, "BAD_REASON", "the reason has %d bytes, want at most 1024", len(q.Reason))
	}
	i, err := c.change(ctx, caller, q.Image, func(id string) ([]ledger.Draft, error) { return c.view.Disable(id, q.Reason) })
	return &catalogv1.DisableImageResponse{Image: i}, err
}

func (c *Catalog) promoteImage(ctx context.Context, caller bus.Caller, q *catalogv1.PromoteImageRequest) (*catalogv1.PromoteImageResponse, error) {
	if err := c.knowChannel(ctx, q.Channel); err != nil {
		return nil, err
	}
	i, err := c.change(ctx, caller, q.Image, func(id string) ([]ledger.Draft, error) { return c.view.Promote(id, q.Channel) })
	if err == nil {
		err = offered(i, q.Channel)
	}
	return &catalogv1.PromoteImageResponse{Image: i}, err
}

// offered refuses when an image is not active in a channel after all: the guard of a
// fact about a channel does not span the image, which may have been disabled meanwhile.
func offered(i *imagev1.Image, channel string) error {
	if i.State == imagev1.State_STATE_ACTIVE && slices.Contains(i.Channels, channel) {
		return nil
	}
	return refuse(fault.Conflict, "MOVED", "image %s or channel %q was changed meanwhile by someone else", i.Manifest.Id, channel)
}

// change settles a decision about the image that ref names, and gives the image after it.
func (c *Catalog) change(ctx context.Context, caller bus.Caller, ref string, decide func(id string) ([]ledger.Draft, error)) (*imagev1.Image, error) {
	i, err := c.find(ctx, ref)
	if err != nil {
		return nil, err
	}
	id := i.Manifest.Id
	if err := c.settle(ctx, caller, func() ([]ledger.Draft, error) { return decide(id) }); err != nil {
		return nil, err
	}
	return c.look(id)
}
