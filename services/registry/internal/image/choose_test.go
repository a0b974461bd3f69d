package image

import (
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	sourcev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/source/v1"
)

// shelf is a set of images and of channels that hold them.
type shelf struct {
	images   []*imagev1.Image
	channels []*channelv1.Channel
	sources  []*sourcev1.Source
}

func (s shelf) Image(id string) (*imagev1.Image, bool) {
	n := slices.IndexFunc(s.images, func(i *imagev1.Image) bool { return i.Manifest.Id == id })
	if n < 0 {
		return nil, false
	}
	return s.images[n], true
}

func (s shelf) Channel(name string) (*channelv1.Channel, bool) {
	n := slices.IndexFunc(s.channels, func(c *channelv1.Channel) bool { return c.Name == name })
	if n < 0 {
		return nil, false
	}
	return s.channels[n], true
}

func (s shelf) Channels() iter.Seq[*channelv1.Channel] { return slices.Values(s.channels) }

func (s shelf) Sources() iter.Seq[*sourcev1.Source] { return slices.Values(s.sources) }

func (s shelf) ImagesNamed(agent, version, id string) []*imagev1.Image {
	return slices.DeleteFunc(slices.Clone(s.images), func(i *imagev1.Image) bool {
		m := i.Manifest
		return m.Agent != agent || version != "" && m.Version != version || !strings.HasPrefix(m.Id, id)
	})
}

const daemon = agentv1.Kind_KIND_DAEMON

func stock() shelf {
	const active, disabled = imagev1.State_STATE_ACTIVE, imagev1.State_STATE_DISABLED
	image := func(id, agent, version, arch string, state imagev1.State) *imagev1.Image {
		m := &imagev1.Manifest{
			Id:       id,
			Agent:    agent,
			Version:  version,
			Kind:     daemon,
			Platform: &serverv1.Platform{Os: "linux", Arch: arch},
		}
		return &imagev1.Image{Manifest: m, State: state}
	}
	return shelf{
		images: []*imagev1.Image{
			image("w1", "web", "1.0.0", "amd64", active), image("w2", "web", "2.0.0", "amd64", active),
			image("w2arm", "web", "2.0.0", "arm64", active), image("w3", "web", "3.0.0", "amd64", disabled),
			image("w4", "web", "4.0.0-rc.1+build7", "amd64",
				active), image("d1", "db", "1.0.0", "amd64", imagev1.State_STATE_UNACTIVATED),
		},
		channels: []*channelv1.Channel{
			{Name: "dev", ImageIds: []string{"w4", "d1"}},
			{Name: "release", Default: true, ImageIds: []string{"w2", "w2arm", "w1", "w3"}},
		},
	}
}

func TestAnImageIsChosenByVersionIDOrChannel(t *testing.T) {
	version := func(v string) *intentv1.ImageChoice {
		return &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: v}}
	}
	id := func(v string) *intentv1.ImageChoice {
		return &intentv1.ImageChoice{By: &intentv1.ImageChoice_ImageId{ImageId: v}}
	}
	channel := func(v string) *intentv1.ImageChoice {
		return &intentv1.ImageChoice{By: &intentv1.ImageChoice_Channel{Channel: v}}
	}
	for _, c := range []struct {
		name        string
		agent, arch string
		choice      *intentv1.ImageChoice
		environment string // its channel
		want        string // an image, or a code
	}{
		{"the highest of the default channel that may be installed", "web", "amd64", nil, "", "w2"},
		{"the same said in words", "web", "amd64", channel("release"), "", "w2"},
		{"an empty channel is the default one", "web", "amd64", channel(""), "", "w2"},
		{"for another platform", "web", "arm64", nil, "", "w2arm"},
		{"from the environment's channel", "web", "amd64", nil, "dev", "w4"},
		{"a channel that was named comes before the environment's", "web", "amd64", channel("release"), "dev", "w2"},
		{"a version", "web", "amd64", version("2.0.0"), "", "w2"},
		{"a version with a v", "web", "amd64", version("v2.0.0"), "", "w2"},
		{"a version for another platform", "web", "arm64", version("2.0.0"), "", "w2arm"},
		{"a version that is not for the platform", "web", "arm64", version("1.0.0"), "", "WRONG_PLATFORM"},
		{"a version that is disabled", "web", "amd64", version("3.0.0"), "", "NOT_ACTIVE"},
		{"a version of another channel", "web", "amd64", version("4.0.0-rc.1+build7"), "", "NO_MATCH"},
		{"a version of the environment's channel", "web", "amd64", version("4.0.0-rc.1+build7"), "dev", "w4"},
		{"a version that only the default channel has", "web", "amd64", version("1.0.0"), "dev", "w1"},
		{"a version that neither channel has", "web", "amd64", version("9.0.0"), "dev", "NO_MATCH"},
		{"another build of a version", "web", "amd64", version("4.0.0-rc.1+build8"), "dev", "NO_MATCH"},
		{"what is no version", "web", "amd64", version("latest"), "", "NO_MATCH"},
		{"an id", "web", "amd64", id("w2"), "", "w2"},
		{"an id of another platform", "web", "amd64", id("w2arm"), "", "WRONG_PLATFORM"},
		{"an id of another agent", "web", "amd64", id("d1"), "", "NO_MATCH"},
		{"an unknown id", "web", "amd64", id("w9"), "", "NO_MATCH"},
		{"one that was never activated", "db", "amd64", channel("dev"), "", "NOT_ACTIVE"},
		{"a channel without the agent", "db", "amd64", nil, "", "NO_MATCH"},
		{"an unknown channel", "web", "amd64", channel("relaese"), "", "UNKNOWN_CHANNEL"},
		{"an unknown platform", "web", "", nil, "", "WRONG_PLATFORM"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := Want{
				Agent:    &agentv1.Agent{Name: c.agent, Kind: daemon},
				Choice:   c.choice,
				Channel:  c.environment,
				Platform: &serverv1.Platform{Os: "linux", Arch: c.arch},
			}
			i, refusal := Choose(stock(), want)
			have := refusal.GetCode()
			if refusal == nil {
				have = i.Manifest.Id
			}
			if have != c.want {
				t.Errorf("%s (%v); want %s", have, refusal, c.want)
			}
		})
	}
}

func TestAnImageOutsideTheChannelOfAnEnvironmentIsFound(t *testing.T) {
	r := stock()
	for _, c := range []struct{ id, channel, want string }{
		{"w1", "dev", "dev"}, {"w1", "", ""}, {"w4", "dev", ""}, {"w4", "", "release"}, {"w4", "relaese", ""},
	} {
		i, ok := r.Image(c.id)
		if have := Outside(r, c.channel, i); !ok || have != c.want {
			t.Errorf("image %s is outside of channel %q, asked for %q; want %q", c.id, have, c.channel, c.want)
		}
	}
}

func TestAVersionThatIsImportedAndNotActivatedIsNamedWithTheCommandThatActivatesIt(t *testing.T) {
	s := stock()
	for _, version := range []string{"5.0.0", "6.0.0"} {
		m := &imagev1.Manifest{
			Id: "w" + version, Agent: "web", Version: version, Kind: daemon,
			Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"},
		}
		s.images = append(s.images, &imagev1.Image{Manifest: m, State: imagev1.State_STATE_UNACTIVATED})
	}
	for arch, want := range map[string]string{
		"amd64": "garrison image activate w5.0.0", "arm64": "garrison image list web",
	} {
		_, refusal := Choose(s, Want{
			Agent: &agentv1.Agent{Name: "web", Kind: daemon}, Platform: &serverv1.Platform{Os: "linux", Arch: arch},
			Choice: &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: "5.0.0"}},
		})
		if refusal.GetCode() != code.NoMatch || refusal.GetTry() != want {
			t.Errorf("%s: have %v, want to try %q", arch, refusal, want)
		}
		said := strings.Contains(refusal.GetMessage(), "5.0.0 is imported and not activated")
		if said != (arch == "amd64") {
			t.Errorf("%s: %s", arch, refusal.GetMessage())
		}
	}
}

func TestAnImageOfAnotherKindIsRefusedInTheWordsOfTheKinds(t *testing.T) {
	_, refusal := Choose(stock(), Want{
		Agent:    &agentv1.Agent{Name: "web", Kind: agentv1.Kind_KIND_ONESHOT},
		Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"},
	})
	want := `image w2 (web 2.0.0 for linux/amd64) is of kind daemon, but agent "web" is of kind oneshot`
	if refusal.GetCode() != code.WrongKind || refusal.GetMessage() != want {
		t.Errorf("%v; want %s: %s", refusal, code.WrongKind, want)
	}
}

// A refusal of an image names where it was looked for, which platforms there are, and what the server could run.
func TestARefusedImageIsNamedWithWhatThereIsInstead(t *testing.T) {
	for _, c := range []struct{ version, arch, message, nearest string }{
		{
			"1.0.0", "arm64", "(4 images of channel release searched, for linux/amd64, linux/arm64; newest for " +
				"linux/arm64 2.0.0)", "2.0.0",
		},
		{
			"3.0.0", "amd64", "(4 images of channel release searched, for linux/amd64, linux/arm64; newest for " +
				"linux/amd64 2.0.0)", "2.0.0",
		},
		{
			"1.0.0", "riscv64", "(4 images of channel release searched, for linux/amd64, linux/arm64; none for " +
				"linux/riscv64)", "",
		},
	} {
		_, refusal := Choose(stock(), Want{
			Agent:    &agentv1.Agent{Name: "web", Kind: agentv1.Kind_KIND_DAEMON},
			Choice:   &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: c.version}},
			Platform: &serverv1.Platform{Os: "linux", Arch: c.arch},
		})
		if !strings.Contains(refusal.GetMessage(), c.message) || refusal.GetNearest() != c.nearest {
			t.Errorf("%s for %s: %v; want %q, nearest %q", c.version, c.arch, refusal, c.message, c.nearest)
		}
	}
}

func TestAnInstallThatNothingMatchesNamesTheSourcesAndWhenTheyWereSynchronized(t *testing.T) {
	s := stock()
	s.sources = []*sourcev1.Source{
		{Name: "site"}, {Name: "vendor", SyncedAt: timestamppb.New(time.Unix(1_700_000_000, 0))},
	}
	_, refusal := Choose(s, Want{
		Agent: &agentv1.Agent{Name: "cache", Kind: daemon}, Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"},
	})
	const want = "sources synchronized: site never, vendor at 2023-11-14T22:13:20Z"
	if refusal.GetCode() != code.NoMatch || !strings.Contains(refusal.GetMessage(), want) {
		t.Errorf("%v, want %q", refusal, want)
	}
}
