// Package channel builds the commands of garrison channel.
package channel

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/listing"
	noun "github.com/garrison-fleet/garrison/pkg/noun/channel"
	"github.com/garrison-fleet/garrison/pkg/record"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

type channel = *channelv1.Channel

var table = listing.Listing[channel]{
	Name: func(c channel) string { return c.GetName() },
	Columns: []listing.Column[channel]{
		listing.Col("NAME", channel.GetName),
		listing.Col("DEFAULT", func(c channel) string { return listing.Yes(c.GetDefault()) }),
		listing.Col("IMAGES", func(c channel) string { return fmt.Sprint(len(c.GetImageIds())) }).Numeric(),
		listing.Col("DESCRIPTION", channel.GetDescription),
		listing.Wide("CREATED", func(c channel) string { return listing.Stamp(c.GetCreatedAt()) }),
	},
}

// Commands returns the command channel with its verbs.
func Commands(env *cli.Env) *cobra.Command {
	listCommand := cli.ListCommand[*catalogv1.ListChannelsResponse](
		env, "channel", "List channels.", table, &catalogv1.ListChannelsRequest{},
	)
	return cli.Group(
		"channel",
		"Manage channels: ordered lists of images to install from.",
		listCommand,
		createCommand(env),
		diffCommand(env),
		removeCommand(env),
		&cobra.Command{
			Use:     "delete NAME",
			Example: "  garrison channel delete beta",
			Short:   "Delete a channel other than the default one; its images stay.",
			Args:    cli.Exactly("NAME"),
			RunE: func(c *cobra.Command, a []string) error {
				if err := checkUnused(c.Context(), env, a[0]); err != nil {
					return err
				}
				_, err := cli.Call[*catalogv1.DeleteChannelResponse](c.Context(), env,
					&catalogv1.DeleteChannelRequest{Name: a[0]})
				return cli.Deleted(env, "channel", a[0], err)
			},
		},
	)
}

// checkUnused refuses a channel that environments use: their servers could no longer be upgraded.
func checkUnused(ctx context.Context, env *cli.Env, name string) error {
	all, err := cli.Records[*environmentv1.Environment](ctx, env, record.List(ledger.Environment))
	if err != nil {
		return err
	}
	var users []string
	for _, e := range all {
		if e.GetChannel() == name {
			users = append(users, e.GetName())
		}
	}
	if len(users) == 0 {
		return nil
	}
	return fault.Refusef(fault.Conflict, code.InUse, "channel %q is used by %s: %s", name,
		listing.Plural(len(users), "environment"), strings.Join(users, ", ")).
		Try("garrison env update " + users[0] + " --channel NAME")
}

func createCommand(env *cli.Env) *cobra.Command {
	q := &catalogv1.CreateChannelRequest{}
	c := &cobra.Command{
		Use:     "create NAME",
		Example: "  garrison channel create beta --description \"for the canaries\"",
		Short:   "Create a channel.", Args: cli.Exactly("NAME"), PreRunE: cli.Prints(env, table),
		RunE: func(c *cobra.Command, a []string) error {
			q.Name = a[0]
			all, err := cli.All[*catalogv1.ListChannelsResponse](c.Context(), env, &catalogv1.ListChannelsRequest{})
			if err != nil {
				return err
			}
			for _, have := range all.GetChannels() { // one with another description is refused
				if have.GetName() == q.Name && have.GetDescription() == q.Description {
					return cli.Changed(env, table, have, "channel %s exists; nothing to do", a[0])
				}
			}
			r, err := cli.Call[*catalogv1.CreateChannelResponse](c.Context(), env, q)
			if err != nil {
				return err
			}
			return cli.Changed(env, table, r.GetChannel(), "channel %s created", a[0])
		},
	}
	c.Flags().StringVar(&q.Description, "description", "", "a description")
	return c
}

func removeCommand(env *cli.Env) *cobra.Command {
	q := &catalogv1.DemoteImageRequest{}
	c := &cobra.Command{
		Use:     "remove IMAGE [--channel CHANNEL]",
		Example: "  garrison channel remove beacon@1.1.0 --channel beta",
		Short:   "Remove an image from a channel; the image stays, and so does what runs from it.",
		Args:    cli.Exactly("IMAGE"),
		RunE: func(c *cobra.Command, a []string) error {
			q.Image = a[0]
			r, err := cli.Call[*catalogv1.DemoteImageResponse](c.Context(), env, q)
			if err != nil {
				return err
			}
			m := r.GetImage().GetManifest()
			name, from := m.GetAgent()+"@"+m.GetVersion(), cmp.Or(q.Channel, noun.Default)
			if r.GetAbsent() {
				env.Say("image %s is not in channel %s; nothing to do", name, from)
				return nil
			}
			env.Say("image %s removed from channel %s", name, from)
			env.Say("to undo: garrison image activate %s --channel %s", m.GetId(), from)
			return nil
		},
	}
	cli.TextVar(c.Flags(), &q.Channel, "channel", cli.Name("channel"),
		"remove it from this `CHANNEL` (default: the default channel)")
	return c
}
