package image

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// stored returns an image of an agent, which last changed some days ago.
func stored(name string, state imagev1.State, days int, arch string) row {
	agent, version, _ := strings.Cut(name, "@")
	at := timestamppb.New(time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC).AddDate(0, 0, -days))
	return &imagev1.Image{State: state, Since: at, Manifest: &imagev1.Manifest{
		Id: name + "/" + arch, Agent: agent, Version: version,
		Platform: &serverv1.Platform{Os: "linux", Arch: arch},
	}}
}

func TestOnlyOldImagesWithoutAnyUseAreDeleted(t *testing.T) {
	const active, disabled, unactivated = imagev1.State_STATE_ACTIVE, imagev1.State_STATE_DISABLED,
		imagev1.State_STATE_UNACTIVATED
	images := []row{
		stored("web@1", active, 50, "amd64"), stored("web@2", disabled, 40, "amd64"),
		stored("web@3", active, 30, "amd64"), stored("web@4", active, 20, "amd64"),
		stored("web@5", unactivated, 10, "amd64"), stored("web@6", unactivated, 1, "amd64"),
		stored("web@1", active, 50, "arm64"), stored("db@1", disabled, 50, "amd64"),
	}
	nothing := use{}
	for name, c := range map[string]struct {
		keep int
		used use
		want []string
	}{
		"inactive ones": {0, nothing, []string{"web@5/amd64", "web@2/amd64", "db@1/amd64"}},
		"active ones but the last": {1, nothing,
			[]string{"web@5/amd64", "web@3/amd64", "web@2/amd64", "db@1/amd64", "web@1/amd64"}},
		"active ones but two": {2, nothing, []string{"web@5/amd64", "web@2/amd64", "db@1/amd64", "web@1/amd64"}},
		"what a server runs stays": {0, use{images: map[string]bool{"web@2/amd64": true}},
			[]string{"web@5/amd64", "db@1/amd64"}},
		"what a default names stays": {0, use{versions: map[string]bool{"web@5": true}},
			[]string{"web@2/amd64", "db@1/amd64"}},
		"what a rollout may need stays": {2, use{agents: map[string]bool{"web": true}}, []string{"db@1/amd64"}},
	} {
		var have []string
		p := pruning{keep: c.keep, olderThan: 7 * 24 * time.Hour}
		for _, i := range p.old(images, c.used, time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)) {
			have = append(have, i.GetManifest().GetId())
		}
		slices.Sort(have)
		slices.Sort(c.want)
		if !slices.Equal(have, c.want) {
			t.Errorf("%s: %v, want %v", name, have, c.want)
		}
	}
}

// An image that a channel offers stays, however many higher versions other channels have, and so do those by way of
// which what servers have becomes it.
func TestWhatAChannelOffersIsNotDeleted(t *testing.T) {
	in := func(i row, channels ...string) row {
		i.Channels = channels
		return i
	}
	const active = imagev1.State_STATE_ACTIVE
	guarded := in(stored("web@4", active, 20, "amd64"), "stable")
	guarded.Manifest.UpgradesFrom = []string{">=3.0.0"}
	images := []row{
		in(stored("web@1", active, 50, "amd64"), "stable"), in(stored("web@2", active, 40, "amd64"), "stable"),
		in(stored("web@3", active, 30, "amd64"), "stable"), guarded,
		in(stored("web@5", active, 10, "amd64"), "beta"), in(stored("web@6", active, 9, "amd64"), "beta"),
	}
	for name, c := range map[string]struct {
		there []string
		want  []string
	}{
		"of a channel":         {[]string{"3"}, []string{"web@1/amd64", "web@2/amd64", "web@3/amd64", "web@5/amd64"}},
		"on the way from 1":    {[]string{"1", "5"}, []string{"web@1/amd64", "web@5/amd64"}},
		"on the way from 2":    {[]string{"2"}, []string{"web@1/amd64", "web@2/amd64", "web@5/amd64"}},
		"servers have nothing": {nil, []string{"web@1/amd64", "web@2/amd64", "web@3/amd64", "web@5/amd64"}},
	} {
		var have []string
		p := pruning{keep: 1, olderThan: 7 * 24 * time.Hour}
		used := use{there: map[string][]string{"web": c.there}}
		for _, i := range p.old(images, used, time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)) {
			have = append(have, i.GetManifest().GetId())
		}
		if slices.Sort(have); !slices.Equal(have, c.want) {
			t.Errorf("%s: %v, want %v", name, have, c.want)
		}
	}
}
