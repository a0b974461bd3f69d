package image

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/nearest"
	"github.com/garrison-fleet/garrison/pkg/version"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

// noMatch refuses a choice that found nothing. It names the request, what was searched, and where the
// version is instead:
//
//	no image of agent "cn-agent" version 1.25.9 for linux/amd64 in channel release
//	(7 images searched, newest 1.25.4; 1.25.9 is in channel dev)
//
// A version that no channel has, but which was imported, is named with the command that makes it installable.
func noMatch(r Reader, w Want, c *channelv1.Channel) *apiv1.Refusal {
	what := fmt.Sprintf("no image of agent %q", w.Agent.Name)
	if v := w.Choice.GetVersion(); v != "" {
		what += " version " + v
	}
	searched := counted(len(versionsIn(r, c, w.Agent.Name, true)), "image") + " searched"
	versions := versionsIn(r, c, w.Agent.Name, false)
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
	} else if idle := notActivated(r, w); idle != nil {
		searched += fmt.Sprintf("; %s is imported and not activated", idle.Manifest.Version)
		try = "garrison image activate " + idle.Manifest.Id
	}
	if from := sources(r); from != "" {
		searched += "; " + from
	}
	refusal := refuse(code.NoMatch,
		fmt.Sprintf("%s for %s in channel %s (%s)", what, platform(w.Platform), c.Name, searched), try)
	if v := w.Choice.GetVersion(); v != "" {
		refusal.Nearest = nearest.Name(v, slices.Values(versions))
	}
	return refusal
}

// maxSources is how many sources a refusal names.
const maxSources = 5

// sources names the sources that may have what the catalog lacks, and when each was last synchronized.
func sources(r Reader) string {
	var out []string
	more := 0
	for s := range r.Sources() {
		switch {
		case len(out) == maxSources:
			more++
		case s.SyncedAt == nil:
			out = append(out, s.Name+" never")
		default:
			out = append(out, s.Name+" at "+s.SyncedAt.AsTime().UTC().Format(time.RFC3339))
		}
	}
	if len(out) == 0 {
		return ""
	}
	text := "sources synchronized: " + strings.Join(out, ", ")
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + "; garrison source sync NAME --dry-run lists what one has"
}

// instead says of a refused image what there is instead: the channel, how many images of the agent it has, for which
// platforms, and the newest version that the target can run.
//
//	image … does not run on linux/arm64 (7 images of channel release searched, for linux/amd64, linux/riscv64;
//	newest for linux/arm64 1.25.3)
func (w Want) instead(r Reader, refusal *apiv1.Refusal) *apiv1.Refusal {
	c, none := channelOf(r, w)
	if none != nil {
		return refusal
	}
	platforms, fits, n := map[string]bool{}, []string{}, 0
	for _, id := range c.ImageIds {
		i, ok := r.Image(id)
		if !ok || i.Manifest.Agent != w.Agent.Name {
			continue
		}
		n++
		platforms[platform(i.Manifest.Platform)] = true
		if samePlatform(i.Manifest.Platform, w.Platform) && i.State == imagev1.State_STATE_ACTIVE {
			fits = append(fits, i.Manifest.Version)
		}
	}
	searched := fmt.Sprintf("%s of channel %s searched", counted(n, "image"), c.Name)
	if n > 0 {
		searched += ", for " + strings.Join(slices.Sorted(maps.Keys(platforms)), ", ")
	}
	if newest := highest(fits); newest != "" {
		searched += fmt.Sprintf("; newest for %s %s", platform(w.Platform), newest)
		refusal.Nearest = newest
	} else {
		searched += "; none for " + platform(w.Platform)
	}
	refusal.Message += " (" + searched + ")"
	return refusal
}

// notActivated returns an image that fits a request and was never activated, the highest version of them, or nil.
func notActivated(r Reader, w Want) (found *imagev1.Image) {
	for _, i := range r.ImagesNamed(w.Agent.Name, "", "") {
		same := w.Platform.GetArch() == "" || platform(i.Manifest.Platform) == platform(w.Platform)
		if i.State == imagev1.State_STATE_UNACTIVATED && same && w.versionFits(i.Manifest.Version) &&
			(found == nil || version.Compare(i.Manifest.Version, found.Manifest.Version) > 0) {
			found = i
		}
	}
	return found
}

// versionsIn returns the versions of an agent in a channel, with those that are disabled or without them.
func versionsIn(r Reader, c *channelv1.Channel, agent string, disabled bool) []string {
	var out []string
	for _, id := range c.ImageIds {
		if i, ok := r.Image(id); ok && i.Manifest.Agent == agent &&
			(disabled || i.State == imagev1.State_STATE_ACTIVE) {
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
		if slices.ContainsFunc(versionsIn(r, c, w.Agent.Name, false), w.versionFits) {
			names = append(names, c.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return slices.Min(names)
}

// CheckChannel refuses a channel that does not exist.
func CheckChannel(r Reader, name string) *apiv1.Refusal {
	if _, ok := r.Channel(name); ok {
		return nil
	}
	return UnknownChannel(r, name)
}

// UnknownChannel refuses an unknown channel.
func UnknownChannel(r Reader, name string) *apiv1.Refusal {
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
