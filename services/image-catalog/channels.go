package catalog

import (
	"context"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/manifest"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/image-catalog/internal/decision"
)

func (c *Catalog) listChannels(
	_ context.Context,
	_ bus.Caller,
	q *catalogv1.ListChannelsRequest,
) (r *catalogv1.ListChannelsResponse, err error) {
	c.follower.Read(func() {
		part, e := c.view.Channels(q.Page)
		r, err = &catalogv1.ListChannelsResponse{
			Channels: part.Rows, NextCursor: part.Next, LeftOut: part.LeftOut,
		}, e
	})
	return r, err
}

func (c *Catalog) createChannel(
	ctx context.Context,
	caller bus.Caller,
	q *catalogv1.CreateChannelRequest,
) (*catalogv1.CreateChannelResponse, error) {
	create := func() ([]ledger.Draft, error) { return decision.CreateChannel(c.view, q.Name, q.Description) }
	if err := c.decide(ctx, caller, create); err != nil {
		return nil, err
	}
	ch, err := c.channel(ctx, q.Name)
	return &catalogv1.CreateChannelResponse{Channel: ch}, err
}

// deleteChannel also succeeds when another request deletes the channel meanwhile.
func (c *Catalog) deleteChannel(
	ctx context.Context,
	caller bus.Caller,
	q *catalogv1.DeleteChannelRequest,
) (*catalogv1.DeleteChannelResponse, error) {
	if _, err := c.channel(ctx, q.Name); err != nil {
		return nil, err
	}
	remove := func() ([]ledger.Draft, error) { return unlessGone(decision.DeleteChannel(c.view, q.Name)) }
	return &catalogv1.DeleteChannelResponse{}, c.decide(ctx, caller, remove)
}

// channel returns a channel, or a refusal when it does not exist.
func (c *Catalog) channel(ctx context.Context, name string) (ch *channelv1.Channel, err error) {
	err = c.decider.Query(ctx, func() (e error) { ch, e = c.view.Channel(name); return e })
	return ch, err
}

// lostContent is the reason of an image that is disabled because its content was purged while it
// was activated.
const lostContent = "its content was deleted together with another image; upload it again and activate it"

// activateImage lets an image be installed. It is safe to run twice: an active image that is in
// the channel stays as it is. The content of a disabled image is checked again.
func (c *Catalog) activateImage(
	ctx context.Context,
	caller bus.Caller,
	q *catalogv1.ActivateImageRequest,
) (*catalogv1.ActivateImageResponse, error) {
	if q.Channel != "" {
		if _, err := c.channel(ctx, q.Channel); err != nil {
			return nil, err
		}
	}
	i, err := c.find(ctx, q.Image)
	if err != nil {
		return nil, err
	}
	inactive := i.State != imagev1.State_STATE_ACTIVE
	if inactive {
		if err := manifest.Check(i.Manifest); err != nil {
			return nil, err
		}
		if err := c.content.verify(ctx, i); err != nil {
			return nil, err
		}
		if err := c.exposed.check(ctx, i.Manifest.Blob); err != nil {
			return nil, err
		}
	}
	i, err = c.change(ctx, caller, i.Manifest.Id,
		func(id string) ([]ledger.Draft, error) { return decision.Activate(c.view, id, q.Channel, inactive) })
	if err == nil {
		err = checkOffered(i, q.Channel)
	}
	if err == nil && inactive {
		err = c.recheckContent(ctx, caller, i)
	}
	return &catalogv1.ActivateImageResponse{Image: i}, err
}

// recheckContent disables an image again when its content was purged between the check and the
// facts: another catalog deleted the last image that shared it, and did not know of this one yet.
// The catalog that deletes checks as well, after the purge: see disableUndermined.
func (c *Catalog) recheckContent(ctx context.Context, caller bus.Caller, i *imagev1.Image) error {
	missing, err := c.content.missing(ctx, i.Manifest.Blob)
	if err != nil || len(missing) == 0 {
		return err
	}
	if err := c.disableLost(ctx, caller, i.Manifest.Id); err != nil {
		return err
	}
	return incomplete(i, len(missing))
}

// disableLost disables an active image whose content is lost.
func (c *Catalog) disableLost(ctx context.Context, caller bus.Caller, id string) error {
	return c.decide(ctx, caller, func() ([]ledger.Draft, error) {
		if i, ok := c.view.Image(id); !ok || i.State != imagev1.State_STATE_ACTIVE {
			return nil, nil
		}
		return decision.Disable(c.view, id, lostContent)
	})
}
