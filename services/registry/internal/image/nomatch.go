package image

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/nearest"
	"github.com/garrison-fleet/garrison/pkg/version"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
)

// noMatch refuses a choice that found nothing. It names the request, what was searched, and where the
// version is instead:
//
//	no image of agent "cn-agent" version 1.25.9 for linux/amd64 in channel release
//	(7 images searched, newest 1.25.4; 1.25.9 is in channel dev)
func noMatch(r Reader, w Want, c *channelv1.Channel) *apiv1.Refusal {
	what := fmt.Sprintf("no image of agent %q", w.Agent.Name)
	if v := w.Choice.GetVersion(); v != "" {
		what += " version " + v
	}
	versions := versionsIn(r, c, w.Agent.Name)
	searched := counted(len(versions), "image") + " searched"
	if newest := highest(versions); newest != "" {
		searched += ", newest " + newest
	}
	try := list(w.Agent.Name)
	if other := elsewhere(r, w, c.Name); other != "" {
		if v := w.Choice.GetVersion(); v != "" {
			searched += fmt.Sprintf("; %s is in channel %s", v, other)
		} else {
			searched += "; there are some in channel " + other
		}
		try += " --channel " + other
	}
	refusal := refuse(code.NoMatch,
		fmt.Sprintf("%s for %s in channel %s (%s)", what, platform(w.Platform), c.Name, searched), try)
	if v := w.Choice.GetVersion(); v != "" {
		refusal.Nearest = nearest.Name(v, slices.Values(versions))
	}
	return refusal
}

func versionsIn(r Reader, c *channelv1.Channel, agent string) []string {
	var out []string
	for _, id := range c.ImageIds {
		if i, ok := r.Image(id); ok && i.Manifest.Agent == agent {
			out = append(out, i.Manifest.Version)
		}
	}
	return out
}

// highest returns the version that comes last; "" of none.
func highest(versions []string) string {
	if len(versions) == 0 {
		return ""
	}
	return slices.MaxFunc(versions, version.Compare)
}

// elsewhere returns the first other channel, by name, that has a matching image.
func elsewhere(r Reader, w Want, but string) string {
	var names []string
	for c := range r.Channels() {
		if c.Name == but {
			continue
		}
		if slices.ContainsFunc(versionsIn(r, c, w.Agent.Name), w.versionFits) {
			names = append(names, c.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return slices.Min(names)
}

func noChannel(r Reader, name string) *apiv1.Refusal {
	names := map[string]bool{}
	for c := range r.Channels() {
		names[c.Name] = true
	}
	refusal := refuse(code.UnknownChannel,
		fmt.Sprintf("no channel %q (%s searched)", name, counted(len(names), "channel")),
		"garrison channel list")
	refusal.Nearest = nearest.Name(name, maps.Keys(names))
	return refusal
}

// counted returns a number and a noun in the singular or the plural.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
