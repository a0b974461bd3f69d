package channel

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

type channel = *channelv1.Channel

var listing = output.Listing[channel]{
	Name: func(c channel) string { return c.GetName() },
	Columns: []output.Column[channel]{
		output.Col("NAME", channel.GetName),
		output.Col("DEFAULT", func(c channel) string { return output.Yes(c.GetDefault()) }),
		output.Col("IMAGES", func(c channel) string { return fmt.Sprint(len(c.GetImageIds())) }),
		output.Col("DESCRIPTION", channel.GetDescription),
		output.Wide("CREATED", func(c channel) string { return output.Stamp(c.GetCreatedAt()) }),
	},
}

// Commands returns the command channel with its verbs.
func Commands(env *cli.Env) *cobra.Command {
	return cli.Group(
		"channel",
		"Manage channels: ordered lists of images to install from.",
		listCommand(env),
		createCommand(env),
		&cobra.Command{
			Use:     "delete NAME",
			Example: "  garrison channel delete beta",
			Short:   "Delete a channel other than the default one; its images stay.",
			Args:    cli.Exactly("NAME"),
			RunE: func(c *cobra.Command, a []string) error {
				_, err := cli.Call[*catalogv1.DeleteChannelResponse](c.Context(), env,
					&catalogv1.DeleteChannelRequest{Name: a[0]})
				return cli.Deleted(env, "channel", a[0], err)
			},
		},
	)
}

func channels(ctx context.Context, env *cli.Env, p *apiv1.Page) (*catalogv1.ListChannelsResponse, error) {
	return cli.Call[*catalogv1.ListChannelsResponse](ctx, env, &catalogv1.ListChannelsRequest{Page: p})
}

func listCommand(env *cli.Env) *cobra.Command {
	var page cli.PageFlags
	c := &cobra.Command{
		Use:     "list",
		Example: "  garrison channel list",
		Short:   "List channels.", Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			return cli.List(c.Context(), env, page, listing, func(ctx context.Context,
				p *apiv1.Page) (*catalogv1.ListChannelsResponse, error) {
				return channels(ctx, env, p)
			})
		},
	}
	page.Add(c, 0)
	return c
}

func createCommand(env *cli.Env) *cobra.Command {
	q := &catalogv1.CreateChannelRequest{}
	c := &cobra.Command{
		Use:     "create NAME",
		Example: "  garrison channel create beta --description \"for the canaries\"",
		Short:   "Create a channel.", Args: cli.Exactly("NAME"), PreRunE: cli.Prints(env, listing),
		RunE: func(c *cobra.Command, a []string) error {
			q.Name = a[0]
			r, err := cli.Call[*catalogv1.CreateChannelResponse](c.Context(), env, q)
			if err != nil {
				return err
			}
			return cli.Changed(env, listing, r.GetChannel(), "channel %s created", a[0])
		},
	}
	c.Flags().StringVar(&q.Description, "description", "", "a description")
	return c
}
