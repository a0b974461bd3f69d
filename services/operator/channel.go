package operator

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
)

type channel = *channelv1.Channel

var channelListing = listing[channel]{
	name: func(c channel) string { return c.GetName() },
	columns: []column[channel]{
		{title: "NAME", value: func(_ view, c channel) string { return c.GetName() }},
		{title: "DEFAULT", value: func(_ view, c channel) string { return yes(c.GetDefault()) }},
		{title: "IMAGES", value: func(_ view, c channel) string { return fmt.Sprint(len(c.GetImageIds())) }},
		{title: "DESCRIPTION", value: func(_ view, c channel) string { return c.GetDescription() }},
		{title: "CREATED", wide: true, value: func(_ view, c channel) string { return stamp(c.GetCreatedAt()) }},
	},
}

func (s *session) channelCommands() *cobra.Command {
	return group("channel", "Named, ordered views of images", s.channelListCommand(), s.channelCreateCommand(), &cobra.Command{
		Use: "delete NAME", Short: "Delete a channel that is not the default one; its images stay", Args: exactly("NAME"),
		RunE: func(c *cobra.Command, a []string) error {
			_, err := call[*catalogv1.DeleteChannelResponse](c.Context(), s, "DeleteChannel", &catalogv1.DeleteChannelRequest{Name: a[0]})
			return s.deleted("channel", a[0], err)
		},
	})
}

func (s *session) askChannels(ctx context.Context, p *apiv1.Page) (*catalogv1.ListChannelsResponse, error) {
	return call[*catalogv1.ListChannelsResponse](ctx, s, "ListChannels", &catalogv1.ListChannelsRequest{Page: p})
}

func (s *session) channelListCommand() *cobra.Command {
	var page pageFlags
	c := &cobra.Command{
		Use: "list", Short: "List channels", Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			return list(c.Context(), s, page, channelListing, s.askChannels)
		},
	}
	page.add(c, 0)
	return c
}

func (s *session) channelCreateCommand() *cobra.Command {
	q := &catalogv1.CreateChannelRequest{}
	c := &cobra.Command{
		Use: "create NAME", Short: "Create a channel", Args: exactly("NAME"), PreRunE: prints(s, channelListing),
		RunE: func(c *cobra.Command, a []string) error {
			q.Name = a[0]
			r, err := call[*catalogv1.CreateChannelResponse](c.Context(), s, "CreateChannel", q)
			if err != nil {
				return err
			}
			return changed(s, channelListing, r.GetChannel(), "channel %s created", a[0])
		},
	}
	c.Flags().StringVar(&q.Description, "description", "", "what it is for")
	return c
}
