package image

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"

	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

func promoteCommand(env *cli.Env) *cobra.Command {
	var from string
	var yes bool
	q := &catalogv1.PromoteImageRequest{}
	c := &cobra.Command{
		Use: "promote IMAGE | --from ENVIRONMENT --channel CHANNEL",
		Example: "  garrison image promote beacon@1.1.0 --channel release\n" +
			"  garrison image promote --from staging --channel prod --dry-run",
		Short: "Add active images to a channel, as its newest: one, or all that an environment runs.",
		Long: `Add an active image to a channel, as its newest. With --from, add every image that the servers of an
environment run and the channel has not, once confirmed. An agent of which they run several versions, or that is bad
somewhere, is left out and named.`,
		PreRunE: cli.Prints(env, display.Images),
		Args: func(c *cobra.Command, a []string) error {
			if from != "" {
				return cli.Exactly()(c, a)
			}
			return cli.Exactly("IMAGE")(c, a)
		},
		RunE: func(c *cobra.Command, a []string) error {
			switch {
			case q.Channel == "":
				return cli.Usage("--channel is missing. Try: garrison channel list")
			case from != "":
				return promoteFrom(c.Context(), env, from, q.Channel, yes)
			}
			return promote(c.Context(), env, a[0], q.Channel)
		},
	}
	cli.TextVar(c.Flags(), &q.Channel, "channel", cli.Name("channel"), "add to this `CHANNEL`")
	cli.TextVar(c.Flags(), &from, "from", cli.Name("environment"), "add what the servers of this `ENVIRONMENT` run")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	return c
}

func promote(ctx context.Context, env *cli.Env, image, channel string) error {
	r, err := cli.Call[*catalogv1.PromoteImageResponse](ctx, env, &catalogv1.PromoteImageRequest{
		Image: image, Channel: channel,
	})
	if err != nil {
		return err
	}
	return cli.Changed(env, display.Images, r.GetImage(), "image %s is the newest of channel %s",
		imageName(r.GetImage()),
		channel)
}

// promoteFrom shows which images of an environment a channel would get, asks, and adds them.
func promoteFrom(ctx context.Context, env *cli.Env, environment, channel string, yes bool) error {
	runs, err := runningIn(ctx, env, environment)
	if err != nil {
		return err
	}
	all, err := cli.All[*catalogv1.ListImagesResponse](ctx, env, &catalogv1.ListImagesRequest{})
	if err != nil {
		return err
	}
	var adds []row
	for _, agent := range slices.Sorted(maps.Keys(runs)) {
		if why := runs[agent].leftOut(); why != "" {
			env.Say("left out: %s: %s", agent, why)
			continue
		}
		for _, i := range all.GetImages() {
			if runs[agent].images[i.GetManifest().GetId()] && i.GetState() == imagev1.State_STATE_ACTIVE &&
				!slices.Contains(i.GetChannels(), channel) {
				adds = append(adds, i)
			}
		}
	}
	if len(adds) == 0 {
		env.Say("nothing to do: channel %s has what environment %s runs", channel, environment)
		return nil
	}
	text := listing.Plural(len(adds), "image") + " to channel " + channel
	if env.DryRun {
		env.Say("would add %s", text)
		return output.Show(env.Output, display.Images, &catalogv1.ListImagesResponse{Images: adds}, adds)
	}
	shown := &catalogv1.ListImagesResponse{Images: adds}
	if err := output.Show(env.Messages(), display.Images, shown, adds); err != nil {
		return err
	}
	if err := env.Confirm(ctx, yes, "Add "+text+"?"); err != nil {
		return err
	}
	for _, i := range adds {
		if err := promote(ctx, env, i.GetManifest().GetId(), channel); err != nil {
			return err
		}
	}
	return nil
}

// run is what the servers of an environment run of an agent.
type run struct {
	versions, images map[string]bool
	bad              uint64 // instances that are not good
}

// leftOut returns why what is run is not promoted; "" when it is.
func (r run) leftOut() string {
	switch {
	case len(r.versions) > 1:
		return "versions " + strings.Join(slices.Sorted(maps.Keys(r.versions)), ", ") + " run there"
	case r.bad > 0:
		return listing.Plural(int(r.bad), "instance") + " of it not good there"
	}
	return ""
}

// runningIn returns what the servers of an environment run, by agent.
func runningIn(ctx context.Context, env *cli.Env, environment string) (map[string]run, error) {
	r, err := cli.Call[*registryv1.CountInstancesResponse](ctx, env, &registryv1.CountInstancesRequest{
		Filter: &registryv1.ListInstancesRequest{Environment: environment},
		By:     []string{"agent", "version", "image", "health"}, Top: mostUsed,
	})
	if err != nil {
		return nil, err
	}
	if r.GetCounts().GetOthers() > 0 {
		return nil, fmt.Errorf("environment %s runs more than %d images", environment, mostUsed)
	}
	out := map[string]run{}
	for _, g := range r.GetCounts().GetGroups() {
		agent, version, image, health := g.GetValues()[0], g.GetValues()[1], g.GetValues()[2], g.GetValues()[3]
		if image == "" {
			continue
		}
		one, known := out[agent]
		if !known {
			one = run{versions: map[string]bool{}, images: map[string]bool{}}
		}
		one.versions[version], one.images[image] = true, true
		if health != "good" {
			one.bad += g.GetCount()
		}
		out[agent] = one
	}
	return out, nil
}
