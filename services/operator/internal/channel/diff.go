package channel

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/version"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// difference is what each of two channels has of an agent and the other one lacks.
type difference struct {
	Agent  string   `json:"agent"`
	First  []string `json:"first,omitempty"`
	Second []string `json:"second,omitempty"`
}

func diffCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:     "diff CHANNEL OTHER",
		Example: "  garrison channel diff staging prod",
		Short:   "Show which images only one of two channels has; exit with 3 when they differ.",
		Long: `Show for each agent which images only one of two channels has, the highest version first; exit with 3
when there are any. To bring what the servers of an environment run to a channel: garrison image promote --from
ENVIRONMENT --channel CHANNEL.`,
		Args: cli.Exactly("CHANNEL", "OTHER"),
		RunE: func(c *cobra.Command, a []string) error {
			all, err := cli.All[*catalogv1.ListChannelsResponse](c.Context(), env, &catalogv1.ListChannelsRequest{})
			if err != nil {
				return err
			}
			for _, name := range a {
				if err := known(all.GetChannels(), name); err != nil {
					return err
				}
			}
			return diff(c.Context(), env, a[0], a[1])
		},
	}
}

// known refuses a channel that does not exist.
func known(all []channel, name string) error {
	var names []string
	for _, c := range all {
		names = append(names, c.GetName())
	}
	if slices.Contains(names, name) {
		return nil
	}
	return cli.Unknown(code.UnknownChannel, "no channel", name, slices.Values(names), "garrison channel list")
}

func diff(ctx context.Context, env *cli.Env, first, second string) error {
	images, err := cli.All[*catalogv1.ListImagesResponse](ctx, env, &catalogv1.ListImagesRequest{})
	if err != nil {
		return err
	}
	text := func(versions []string) string { return strings.Join(versions, ", ") }
	table := listing.Listing[difference]{
		Name: func(d difference) string { return d.Agent },
		Columns: []listing.Column[difference]{
			listing.Col("AGENT", func(d difference) string { return d.Agent }),
			listing.Col("ONLY "+strings.ToUpper(first), func(d difference) string { return text(d.First) }),
			listing.Col("ONLY "+strings.ToUpper(second), func(d difference) string { return text(d.Second) }),
		},
	}
	whole := cli.Differences[difference]{
		First: first, Second: second, Differences: compare(images.GetImages(), first, second),
	}
	return whole.Show(env, table, "channels %s and %s have the same images")
}

// compare returns for each agent the images that only one of two channels has.
func compare(all []*imagev1.Image, first, second string) []difference {
	slices.SortStableFunc(all, func(a, b *imagev1.Image) int {
		return version.Compare(b.GetManifest().GetVersion(), a.GetManifest().GetVersion())
	})
	found := map[string]difference{}
	for _, i := range all {
		one, other := slices.Contains(i.GetChannels(), first), slices.Contains(i.GetChannels(), second)
		if one == other {
			continue
		}
		m := i.GetManifest()
		d := found[m.GetAgent()]
		d.Agent = m.GetAgent()
		text := fmt.Sprintf("%s %s", m.GetVersion(), cmp.Or(display.Platform(m.GetPlatform()), "any platform"))
		if one {
			d.First = append(d.First, text)
		} else {
			d.Second = append(d.Second, text)
		}
		found[m.GetAgent()] = d
	}
	var out []difference
	for _, agent := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[agent])
	}
	return out
}
