package image

import (
	"strings"
	"testing"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// ladder is a channel with images of web; each is "VERSION", and its manifest may be edited.
func ladder(edit map[string]func(*imagev1.Manifest), versions ...string) shelf {
	s := shelf{channels: []*channelv1.Channel{{Name: "release", Default: true}}}
	for _, v := range versions {
		amd64 := &serverv1.Platform{Os: "linux", Arch: "amd64"}
		m := &imagev1.Manifest{Id: v, Agent: "web", Version: v, Platform: amd64}
		if edit[v] != nil {
			edit[v](m)
		}
		s.images = append(s.images, &imagev1.Image{Manifest: m, State: imagev1.State_STATE_ACTIVE})
		s.channels[0].ImageIds = append(s.channels[0].ImageIds, v)
	}
	return s
}

func from(ranges ...string) func(*imagev1.Manifest) {
	return func(m *imagev1.Manifest) { m.UpgradesFrom = ranges }
}

func TestAPathGoesByWayOfAsFewImagesAsItCan(t *testing.T) {
	two := map[string]func(*imagev1.Manifest){"2.0.0": from(">=1.5.0 <2.0.0")}
	for _, c := range []struct {
		name        string
		shelf       shelf
		present, to string
		want        string // the hops, or a part of the refusal
	}{
		{"any version without the field", ladder(nil, "1.0.0", "2.0.0"), "1.0.0", "2.0.0", ""},
		{"a version in the range", ladder(two, "1.5.0", "2.0.0"), "1.5.0", "2.0.0", ""},
		{"one hop", ladder(two, "1.0.0", "1.5.0", "2.0.0"), "1.0.0", "2.0.0", "1.5.0"},
		{"the highest of two", ladder(two, "1.0.0", "1.5.0", "1.6.0", "2.0.0"), "1.0.0", "2.0.0", "1.6.0"},
		{
			"two hops", ladder(map[string]func(*imagev1.Manifest){
				"2.0.0": from(">=1.5.0"), "1.5.0": from("1.2.0"), "1.2.0": from(">=1.0.0"),
			}, "1.0.0", "1.2.0", "1.5.0", "2.0.0"), "1.0.0", "2.0.0", "1.2.0,1.5.0",
		},
		{
			"not by way of what it skips", ladder(map[string]func(*imagev1.Manifest){
				"2.0.0": func(m *imagev1.Manifest) {
					m.UpgradesFrom, m.Skips = []string{">=1.5.0"}, []string{"1.6.0"}
				},
			}, "1.0.0", "1.5.0", "1.6.0", "2.0.0"), "1.0.0", "2.0.0", "1.5.0",
		},
		{
			"at once from what it skips", ladder(map[string]func(*imagev1.Manifest){"2.0.0": func(m *imagev1.Manifest) {
				m.UpgradesFrom, m.Skips = []string{"1.9.0"}, []string{"1.6.0"}
			}}, "1.6.0", "2.0.0"), "1.6.0", "2.0.0", "",
		},
		{"no image on the way", ladder(two, "1.0.0", "1.4.0", "2.0.0"), "1.0.0", "2.0.0", "NO_UPGRADE_PATH 1.4.0"},
		{"nothing in between", ladder(two, "1.0.0", "2.0.0"), "1.0.0", "2.0.0", "NO_UPGRADE_PATH release"},
		{"a downgrade", ladder(two, "1.0.0", "2.0.0"), "2.0.0", "1.0.0", ""},
		{
			"a downgrade below the floor", ladder(map[string]func(*imagev1.Manifest){
				"2.0.0": func(m *imagev1.Manifest) { m.Floor = "1.5.0" },
			}, "1.0.0", "2.0.0"), "2.0.0", "1.0.0", "NO_UPGRADE_PATH 1.5.0",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			to, _ := c.shelf.Image(c.to)
			w := Want{Agent: &agentv1.Agent{Name: "web"}, Platform: to.Manifest.Platform}
			hops, refusal := Path(c.shelf, w, &imagev1.Ref{Id: c.present, Version: c.present}, to.Manifest)
			have := strings.Join(versions(hops), ",")
			if code, says, ok := strings.Cut(c.want, " "); ok {
				if refusal.GetCode() != code || !strings.Contains(refusal.GetMessage(), says) {
					t.Errorf("%q, %v; want %s", have, refusal, c.want)
				}
			} else if have != c.want || refusal != nil {
				t.Errorf("%q, %v; want %q", have, refusal, c.want)
			}
		})
	}
}
