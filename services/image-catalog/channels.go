package catalog

import (
	"context"

	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ledger"

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
