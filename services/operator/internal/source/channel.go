package source

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/nearest"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	sourcev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/source/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// checkChannel refuses a channel of which a source has no image; "" is every channel.
func checkChannel(name string, index *sourcev1.Index, channel string) error {
	has := map[string]bool{"": true}
	for _, l := range index.GetImages() {
		for _, c := range l.GetChannels() {
			has[c] = true
		}
	}
	if has[channel] {
		return nil
	}
	delete(has, "")
	what := "it has none"
	if len(has) > 0 {
		what = "its index has " + strings.Join(slices.Sorted(maps.Keys(has)), ", ")
	}
	return fault.Refusef(fault.NotFound, code.UnknownChannel, "source %s has no channel %q; %s", name, channel, what).
		Near(nearest.Name(channel, maps.Keys(has))).Try("garrison source sync " + name + " --dry-run")
}

// checkInto refuses a channel that the catalog does not have; "" stands for no channel.
func checkInto(ctx context.Context, env *cli.Env, channel string) error {
	if channel == "" {
		return nil
	}
	all, err := cli.All[*catalogv1.ListChannelsResponse](ctx, env, &catalogv1.ListChannelsRequest{})
	if err != nil {
		return err
	}
	has := map[string]bool{}
	for _, c := range all.GetChannels() {
		has[c.GetName()] = true
	}
	if has[channel] {
		return nil
	}
	return cli.Unknown(code.UnknownChannel, "the catalog has no channel", channel, maps.Keys(has),
		"garrison channel list")
}

// outside returns the images that the catalog has, but not active in a channel; "" is no channel. It leaves out and
// names those that somebody disabled.
func (s *session) outside(env *cli.Env, channel string) (out []listed) {
	for _, o := range s.offers {
		switch active := o.in.GetState() == imagev1.State_STATE_ACTIVE; {
		case channel == "" || !o.here() || active && slices.Contains(o.in.GetChannels(), channel):
		case o.in.GetState() == imagev1.State_STATE_DISABLED:
			env.Say("image %s@%s stays disabled; to enable it: garrison image activate %s --channel %s",
				o.of.GetAgent(), o.of.GetVersion(), o.of.GetImageId(), channel)
		default:
			out = append(out, o.of)
		}
	}
	return out
}

// activate activates an image that the catalog has in a channel.
func activate(ctx context.Context, env *cli.Env, l listed, channel, what string) error {
	c, err := env.Client(ctx)
	if err != nil {
		return err
	}
	if _, err = c.Activate(ctx, l.GetImageId(), channel); err == nil {
		env.Say("image %s@%s %s in channel %s", l.GetAgent(), l.GetVersion(), what, channel)
	}
	return err
}
