package catalog

import (
	"context"

	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

func (c *Catalog) listChannels(_ context.Context, _ bus.Caller, q *catalogv1.ListChannelsRequest) (r *catalogv1.ListChannelsResponse, err error) {
	r = &catalogv1.ListChannelsResponse{}
	c.follower.Read(func() { r.Channels, r.NextCursor, err = c.view.Channels(q.Page) })
	return r, err
}

func (c *Catalog) createChannel(ctx context.Context, caller bus.Caller, q *catalogv1.CreateChannelRequest) (*catalogv1.CreateChannelResponse, error) {
	err := c.settle(ctx, caller, func() ([]ledger.Draft, error) { return c.view.CreateChannel(q.Name, q.Description) })
	if err != nil {
		return nil, err
	}
	ch, err := c.channel(q.Name)
	return &catalogv1.CreateChannelResponse{Channel: ch}, err
}

// deleteChannel counts a channel as deleted that goes while the request runs, whoever did it.
func (c *Catalog) deleteChannel(ctx context.Context, caller bus.Caller, q *catalogv1.DeleteChannelRequest) (*catalogv1.DeleteChannelResponse, error) {
	if err := c.knowChannel(ctx, q.Name); err != nil {
		return nil, err
	}
	err := c.settle(ctx, caller, func() ([]ledger.Draft, error) { return goneIsDone(c.view.DeleteChannel(q.Name)) })
	return &catalogv1.DeleteChannelResponse{}, err
}

// goneIsDone makes nothing left to do of not being found.
func goneIsDone(drafts []ledger.Draft, err error) ([]ledger.Draft, error) {
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return drafts, err
}

func (c *Catalog) channel(name string) (ch *channelv1.Channel, err error) {
	c.follower.Read(func() { ch, err = c.view.Channel(name) })
	return ch, err
}

// knowChannel refuses a channel that is not there at the end of the ledger either.
func (c *Catalog) knowChannel(ctx context.Context, name string) error {
	_, err := c.channel(name)
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	if err := c.catchUp(ctx); err != nil {
		return err
	}
	_, err = c.channel(name)
	return err
}
