package available_test

import (
	"iter"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	blockv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/block/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	sourcev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/source/v1"

	"github.com/garrison-fleet/garrison/pkg/noun/block"
	"github.com/garrison-fleet/garrison/services/registry/internal/available"
	"github.com/garrison-fleet/garrison/services/registry/internal/image"
)

// world has the agent web: 1.1.0 in the default channel, and 2.0.0 also in dev; prod follows the default, lab dev, and
// lost a channel that was deleted.
type world struct{}

func build(id, version, arch string) *imagev1.Image {
	return &imagev1.Image{State: imagev1.State_STATE_ACTIVE, Manifest: &imagev1.Manifest{
		Id: id, Agent: "web", Version: version, Kind: agentv1.Kind_KIND_DAEMON,
		Platform: &serverv1.Platform{Os: "linux", Arch: arch},
	}}
}

var images = map[string]*imagev1.Image{
	"old": build("old", "1.0.0", "amd64"), "new": build("new", "1.1.0", "amd64"), "dev": build("dev", "2.0.0", "amd64"),
	"bad": build("bad", "3.0.0", "amd64"),
}

// bad is the build that is blocked.
var bad = block.OfImage("web", image.Ref(images["bad"].Manifest), images["bad"].Manifest.Platform)

var channels = map[string]*channelv1.Channel{
	"release": {Name: "release", Default: true, ImageIds: []string{"old", "new"}},
	"dev":     {Name: "dev", ImageIds: []string{"old", "dev"}},
	"bad":     {Name: "bad", ImageIds: []string{"old", "bad"}},
}

func (world) Image(id string) (*imagev1.Image, bool)         { i, ok := images[id]; return i, ok }
func (world) Channel(name string) (*channelv1.Channel, bool) { c, ok := channels[name]; return c, ok }
func (world) Channels() iter.Seq[*channelv1.Channel]         { return maps.Values(channels) }
func (world) Sources() iter.Seq[*sourcev1.Source]            { return slices.Values([]*sourcev1.Source(nil)) }
func (world) ImagesNamed(_, _, _ string) []*imagev1.Image    { return nil }
func (world) Block(id string) (*blockv1.Block, bool) {
	return &blockv1.Block{Id: id, Build: bad, SetBy: "ann", Reason: "it leaks"}, id == block.ID(bad)
}
func (world) Agent(name string) (*agentv1.Agent, bool) {
	return &agentv1.Agent{Name: name, Kind: agentv1.Kind_KIND_DAEMON}, true
}
func (world) Environment(n string) (*environmentv1.Environment, bool) {
	e := map[string]*environmentv1.Environment{
		"prod": {Name: "prod"}, "lab": {Name: "lab", Channel: "dev"}, "lost": {Name: "lost", Channel: "gone"},
		"bad": {Name: "bad", Channel: "bad"},
	}[n]
	return e, e != nil
}

func group(count uint64, values ...string) *registryv1.CountGroup {
	return &registryv1.CountGroup{Values: values, Count: count}
}

func TestTheNewestImageIsThatOfTheEnvironmentsChannelAndPlatform(t *testing.T) {
	rows := available.List(world{}, []*registryv1.CountGroup{
		group(7, "web", "prod", "linux/amd64", "1.1.0"),
		group(3, "web", "prod", "linux/amd64", "1.0.0"),
		group(9, "web", "prod", "linux/amd64", ""), // being removed
		group(2, "web", "lab", "linux/amd64", "1.1.0"),
		group(1, "web", "none", "linux/amd64", "3.0.0"), // newer than the channel
		group(4, "web", "prod", "linux/arm64", "1.0.0"),
		group(5, "web", "lost", "linux/amd64", "1.0.0"),
		group(6, "web", "bad", "linux/amd64", "2.0.0"),
	})
	type row struct {
		Key, Channel, Version, Code string
		Instances, Behind           uint64
		Versions                    []string
	}
	var have []row
	for _, a := range rows {
		r := row{available.Key(a), a.Channel, a.Version, a.Refusal.GetCode(), a.Instances, a.Behind, nil}
		for _, v := range a.Versions {
			r.Versions = append(r.Versions, v.Version)
		}
		have = append(have, r)
	}
	want := []row{
		{"web//linux/amd64", "release", "1.1.0", "", 1, 0, []string{"3.0.0"}},
		{"web/bad/linux/amd64", "bad", "3.0.0", "BLOCKED", 6, 0, []string{"2.0.0"}},
		{"web/lab/linux/amd64", "dev", "2.0.0", "", 2, 2, []string{"1.1.0"}},
		{"web/lost/linux/amd64", "gone", "", "UNKNOWN_CHANNEL", 5, 0, []string{"1.0.0"}},
		{"web/prod/linux/amd64", "release", "1.1.0", "", 10, 3, []string{"1.0.0", "1.1.0"}},
		{"web/prod/linux/arm64", "release", "", "WRONG_PLATFORM", 4, 0, []string{"1.0.0"}},
	}
	if d := cmp.Diff(want, have); d != "" {
		t.Error(d)
	}
}

func TestOnlyWhatIsNewerOrRefusedIsListedUnlessAllIsAsked(t *testing.T) {
	rows := available.List(world{}, []*registryv1.CountGroup{
		group(1, "web", "prod", "linux/amd64", "1.1.0"),
		group(1, "web", "lab", "linux/amd64", "1.1.0"),
		group(1, "web", "lost", "linux/amd64", "1.0.0"),
	})
	for name, c := range map[string]struct {
		after string
		all   bool
		want  []string
	}{
		"newer or refused": {"", false, []string{"web/lab/linux/amd64", "web/lost/linux/amd64"}},
		"all":              {"", true, []string{"web/lab/linux/amd64", "web/lost/linux/amd64", "web/prod/linux/amd64"}},
		"the next part":    {"web/lab/linux/amd64", false, []string{"web/lost/linux/amd64"}},
	} {
		have := slices.Collect(keys(available.After(rows, c.after, c.all)))
		if d := cmp.Diff(c.want, have); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func keys(rows iter.Seq2[string, *registryv1.Available]) iter.Seq[string] {
	return func(yield func(string) bool) {
		for k := range rows {
			if !yield(k) {
				return
			}
		}
	}
}
