package image

import (
	"fmt"
	"iter"
	"slices"

	"github.com/Masterminds/semver/v3"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	sourcev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/source/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	agentnoun "github.com/garrison-fleet/garrison/pkg/noun/agent"
	"github.com/garrison-fleet/garrison/pkg/version"
)

// Reader is the view that a choice reads.
type Reader interface {
	Image(id string) (*imagev1.Image, bool)
	Channel(name string) (*channelv1.Channel, bool)
	Channels() iter.Seq[*channelv1.Channel]
	Sources() iter.Seq[*sourcev1.Source]
	ImagesNamed(agent, version, id string) []*imagev1.Image // those with an id that starts so; an empty text is any
}

// Want is the request for a choice: an image of an agent for one platform.
type Want struct {
	Agent    *agentv1.Agent
	Choice   *intentv1.ImageChoice
	Channel  string // the channel of the target's environment; empty means the default one
	Platform *serverv1.Platform
}

// Choose returns the image for a request, or a refusal.
func Choose(r Reader, w Want) (*imagev1.Image, *apiv1.Refusal) {
	var found *imagev1.Image
	var refusal *apiv1.Refusal
	if id := w.Choice.GetImageId(); id != "" {
		found, refusal = byID(r, w, id)
	} else {
		found, refusal = inChannel(r, w)
	}
	if refusal != nil {
		return nil, refusal
	}
	return found, check(r, w, found)
}

func byID(r Reader, w Want, id string) (*imagev1.Image, *apiv1.Refusal) {
	found, ok := r.Image(id)
	if !ok {
		return nil, refuse(code.NoMatch, fmt.Sprintf("no image %s of agent %q", id, w.Agent.Name), list(w.Agent.Name))
	}
	if m := found.Manifest; m.Agent != w.Agent.Name {
		return nil, refuse(code.NoMatch, fmt.Sprintf("image %s is of agent %q, not of %q", id, m.Agent, w.Agent.Name),
			list(w.Agent.Name))
	}
	return found, nil
}

// inChannel chooses the image of the channel that is best for the target. A version that is named, and that the channel
// of the target's environment does not have, may also be in the default channel: a channel chooses what is newest, and
// does not forbid what an operator names.
func inChannel(r Reader, w Want) (*imagev1.Image, *apiv1.Refusal) {
	channel, refusal := channelOf(r, w)
	if refusal != nil {
		return nil, refusal
	}
	best := bestOf(r, w, channel)
	if best == nil && w.Choice.GetVersion() != "" && w.Channel != "" {
		if other, ok := defaultChannel(r); ok {
			best = bestOf(r, w, other)
		}
	}
	if best == nil {
		return nil, noMatch(r, w, channel)
	}
	return best, nil
}

// bestOf returns the image of a channel that is best for the target, or nil.
func bestOf(r Reader, w Want, channel *channelv1.Channel) *imagev1.Image {
	var best *imagev1.Image
	rank := 0
	for _, id := range slices.Backward(channel.ImageIds) {
		i, ok := r.Image(id)
		if !ok || i.Manifest.Agent != w.Agent.Name || !w.versionFits(i.Manifest.Version) {
			continue
		}
		have := w.rank(i)
		if have > rank || have == rank && Older(best.Manifest.Version, i.Manifest.Version) {
			best, rank = i, have
		}
	}
	return best
}

// Older reports whether version a comes before version b.
func Older(a, b string) bool { return version.Compare(a, b) < 0 }

// Named reports whether a choice names an image or a version. Any other choice leaves it to the
// registry.
func Named(c *intentv1.ImageChoice) bool { return c.GetImageId() != "" || c.GetVersion() != "" }

// rank orders images that match otherwise: those of the right platform first, and of those the active ones.
func (w Want) rank(i *imagev1.Image) int {
	rank := 1
	if samePlatform(i.Manifest.Platform, w.Platform) {
		rank += 2
	}
	if i.State == imagev1.State_STATE_ACTIVE {
		rank++
	}
	return rank
}

func (w Want) versionFits(have string) bool {
	want := w.Choice.GetVersion()
	if want == "" || want == have {
		return true
	}
	a, err := semver.NewVersion(want)
	if err != nil {
		return false
	}
	b, err := semver.NewVersion(have)
	// Build metadata distinguishes two builds, though it has no precedence.
	return err == nil && a.Equal(b) && a.Metadata() == b.Metadata()
}

// defaultChannel returns the channel that is used where none is named, if there is one.
func defaultChannel(r Reader) (*channelv1.Channel, bool) {
	for c := range r.Channels() {
		if c.Default {
			return c, true
		}
	}
	return nil, false
}

func channelOf(r Reader, w Want) (*channelv1.Channel, *apiv1.Refusal) {
	name := w.Choice.GetChannel()
	if name == "" {
		name = w.Channel
	}
	if name != "" {
		if c, ok := r.Channel(name); ok {
			return c, nil
		}
		return nil, UnknownChannel(r, name)
	}
	if c, ok := defaultChannel(r); ok {
		return c, nil
	}
	return nil, refuse(code.NoMatch, "no channel is named, and no channel is the default", "garrison channel list")
}

// Outside returns the channel of an environment, "" is the default one, when an image is not in it, and else "".
func Outside(r Reader, channel string, i *imagev1.Image) string {
	c, refusal := channelOf(r, Want{Channel: channel})
	if refusal != nil || slices.Contains(c.ImageIds, i.Manifest.Id) {
		return ""
	}
	return c.Name
}

// Withdrawn returns why an image of an agent that was chosen before must no longer be installed, or nil: it was
// deleted or disabled.
func Withdrawn(r Reader, agent string, ref *imagev1.Ref) *apiv1.Refusal {
	name := fmt.Sprintf("image %s (%s %s)", ref.GetId(), agent, ref.GetVersion())
	switch found, ok := r.Image(ref.GetId()); {
	case !ok:
		return refuse(code.NoMatch, name+" was deleted", list(agent))
	case found.State == imagev1.State_STATE_DISABLED:
		return refuse(code.NotActive, name+" is disabled: "+found.Reason, list(agent))
	}
	return nil
}

// check returns why an image must not be used, or nil.
func check(r Reader, w Want, found *imagev1.Image) *apiv1.Refusal {
	m := found.Manifest
	name := fmt.Sprintf("image %s (%s %s for %s)", m.Id, m.Agent, m.Version, platform(m.Platform))
	switch {
	case !samePlatform(m.Platform, w.Platform):
		return w.instead(r, refuse(code.WrongPlatform, name+" does not run on "+platform(w.Platform), list(m.Agent)))
	case m.Kind != w.Agent.Kind:
		return refuse(code.WrongKind,
			fmt.Sprintf("%s is of kind %s, but agent %q is of kind %s", name, agentnoun.KindWord(m.Kind), w.Agent.Name,
				agentnoun.KindWord(w.Agent.Kind)),
			"garrison agent show "+m.Agent)
	case found.State == imagev1.State_STATE_DISABLED:
		return w.instead(r, refuse(code.NotActive, name+" is disabled: "+found.Reason, list(m.Agent)))
	case found.State != imagev1.State_STATE_ACTIVE:
		return w.instead(r, refuse(code.NotActive, name+" is not activated", "garrison image activate "+m.Id))
	}
	return nil
}

func samePlatform(a, b *serverv1.Platform) bool {
	return a.GetOs() == b.GetOs() && a.GetArch() == b.GetArch()
}

func platform(p *serverv1.Platform) string {
	if p.GetOs() == "" {
		return "an unknown platform"
	}
	return p.Os + "/" + p.Arch
}

func refuse(code, message, try string) *apiv1.Refusal {
	return &apiv1.Refusal{Code: code, Message: message, Try: try}
}

func list(agent string) string { return "garrison image list " + agent }
