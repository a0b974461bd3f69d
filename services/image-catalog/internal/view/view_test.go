package view

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// world is a view and the end of the ledger that it was folded from.
type world struct {
	*View
	end uint64
}

func newWorld() *world { return &world{View: New()} }

// fold applies a fact as the next one of the ledger.
func (w *world) fold(f ledger.Fact) bool {
	w.end++
	f.Sequence, f.At = w.end, time.Unix(int64(w.end), 0)
	return w.Apply(f)
}

// holds says whether the guards of drafts hold, as the bus would.
func (w *world) holds(drafts []ledger.Draft) bool {
	for _, d := range drafts {
		have := w.images.Sequence(d.Key)
		if d.Noun == ledger.Channel {
			have = w.channels.Sequence(d.Key)
		}
		if strings.Contains(d.Guard.Subject, "*.created") {
			have = w.marks.Sequence(createdMark)
		}
		if d.Guard.Subject != "" && d.Guard.Sequence != have {
			return false
		}
	}
	return true
}

// do records what was decided.
func (w *world) do(t testing.TB, drafts []ledger.Draft, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range drafts {
		if !w.fold(d.Fact) {
			t.Fatalf("decided %s, which does not fit", d.Subject())
		}
	}
}

func manifest(agent, version, arch, content string) *imagev1.Manifest {
	digest := []byte(fmt.Sprintf("%-32.32s", content))
	return &imagev1.Manifest{
		Id: ident.From(agent, version, arch, content), Agent: agent, Version: version, Kind: agentv1.Kind_KIND_FILES,
		Platform: &serverv1.Platform{Os: "linux", Arch: arch},
		Blob:     &imagev1.Blob{Digest: digest, SizeBytes: 1, ChunkSizeBytes: 1, ChunkDigests: [][]byte{digest}},
	}
}

// active puts an active image into the release channel.
func (w *world) active(t testing.TB, m *imagev1.Manifest) string {
	t.Helper()
	w.do(t, w.CreateDefault(), nil)
	drafts, err := w.Create(m)
	w.do(t, drafts, err)
	drafts, err = w.Activate(m.Id, DefaultChannel, true)
	w.do(t, drafts, err)
	return m.Id
}

func wantRefusal(t *testing.T, err error, kind fault.Kind, line string) {
	t.Helper()
	if !fault.Is(err, kind) || err.Error() != line {
		t.Fatalf("refused (%v):\n%v\nwant (%v):\n%s", fault.KindOf(err), err, kind, line)
	}
}

func TestAnImageIsFoundByIDPrefixAndVersion(t *testing.T) {
	w := newWorld()
	id := w.active(t, manifest("cn-agent", "1.0.0", "amd64", "x"))
	for _, ref := range []string{id, id[:8], id[:3], "cn-agent@1.0.0"} {
		if have, err := w.Resolve(ref); have != id || err != nil {
			t.Errorf("%q gives %q, %v", ref, have, err)
		}
	}
}

func TestAnUnknownImageIsRefusedWithWhatWasSearched(t *testing.T) {
	w := newWorld()
	for n := range 7 {
		w.active(t, manifest("cn-agent", "1.25."+strconv.Itoa(n), "amd64", strconv.Itoa(n)))
	}
	w.active(t, manifest("vm-agent", "2.0.0", "amd64", "x"))
	for ref, line := range map[string]string{
		"cn-agent@1.25.9": `image-catalog: NO_MATCH: no image of agent "cn-agent" version 1.25.9 (7 images searched, newest 1.25.6). Nearest: cn-agent@1.25.6. Try: garrison image list cn-agent`,
		"cn-agnt@1.25.1":  `image-catalog: NO_MATCH: no image of agent "cn-agnt" (8 images of 2 agents searched). Nearest: cn-agent. Try: garrison image list`,
		"cn-agent":        `image-catalog: NO_MATCH: "cn-agent" is an agent with 7 images; name one by its id or as agent@version. Nearest: cn-agent@1.25.6. Try: garrison image list cn-agent`,
		"0000000f":        `image-catalog: NO_MATCH: no image has an id that starts with "0000000f" (8 images searched); name one by its id, a prefix of it, or as agent@version. Try: garrison image list`,
		"":                `image-catalog: NO_MATCH: no image has an id that starts with "" (8 images searched); name one by its id, a prefix of it, or as agent@version. Try: garrison image list`,
	} {
		_, err := w.Resolve(ref)
		wantRefusal(t, err, fault.NotFound, line)
	}
}

func TestAVersionForTwoPlatformsIsAmbiguous(t *testing.T) {
	w := newWorld()
	a, b := w.active(t, manifest("a", "1.0.0", "amd64", "x")), w.active(t, manifest("a", "1.0.0", "arm64", "y"))
	_, err := w.Resolve("a@1.0.0")
	if fault.RefusalOf(err).GetCode() != "AMBIGUOUS_IMAGE" || !strings.Contains(err.Error(), a[:8]) || !strings.Contains(err.Error(), b[:8]) {
		t.Fatal(err)
	}
}

func TestAnUnknownChannelIsRefusedWithTheNearest(t *testing.T) {
	w := newWorld()
	w.do(t, w.CreateDefault(), nil)
	_, err := w.DeleteChannel("relaese")
	wantRefusal(t, err, fault.NotFound, `image-catalog: NO_CHANNEL: no channel "relaese" (1 channels searched: release). Nearest: release. Try: garrison channel list`)
}

func TestTheSameManifestAgainNeedsNothing(t *testing.T) {
	w := newWorld()
	m := manifest("a", "1.0.0", "amd64", "x")
	w.active(t, m)
	if drafts, err := w.Create(proto.CloneOf(m)); len(drafts) != 0 || err != nil {
		t.Fatal(drafts, err)
	}
}

func TestAVersionIsNotCreatedTwice(t *testing.T) {
	w := newWorld()
	m := manifest("a", "1.0.0", "amd64", "x")
	w.active(t, m)
	_, err := w.Create(manifest("a", "1.0.0", "amd64", "y"))
	if fault.RefusalOf(err).GetCode() != "VERSION_EXISTS" || !fault.Is(err, fault.Conflict) {
		t.Fatal(err)
	}
	other := proto.CloneOf(m)
	other.Description, other.Tags = "changed", map[string]string{"a": "b"}
	_, err = w.Create(other)
	wantRefusal(t, err, fault.Conflict, `image-catalog: VERSION_EXISTS: a 1.0.0 for linux/amd64 exists with the same content and another tags, description; a version never changes, so build it as a new one. Nearest: `+m.Id+`. Try: garrison image show `+m.Id)
}

func TestImagesWithOneDigestMustHaveTheSameChunks(t *testing.T) {
	w := newWorld()
	w.active(t, manifest("a", "1.0.0", "amd64", "x"))
	m := manifest("a", "1.0.1", "amd64", "x")
	m.Blob.ChunkDigests = [][]byte{[]byte("other")}
	_, err := w.Create(m)
	if fault.RefusalOf(err).GetCode() != "OTHER_CHUNKS" {
		t.Fatal(err)
	}
}

func TestADeletedBuildMayBeCreatedAgain(t *testing.T) {
	w := newWorld()
	m := manifest("a", "1.0.0", "amd64", "x")
	id := w.active(t, m)
	drafts, err := w.Disable(id, "bad")
	w.do(t, drafts, err)
	drafts, err = w.Delete(id)
	w.do(t, drafts, err)
	if _, ok := w.Image(id); ok {
		t.Fatal("still there")
	}
	w.active(t, m)
}

func TestEachStateRefusesWhatDoesNotFit(t *testing.T) {
	decide := map[string]func(*world, string) ([]ledger.Draft, error){
		"activate": func(w *world, id string) ([]ledger.Draft, error) { return w.Activate(id, DefaultChannel, true) },
		"disable":  func(w *world, id string) ([]ledger.Draft, error) { return w.Disable(id, "") },
		"delete":   func(w *world, id string) ([]ledger.Draft, error) { return w.Delete(id) },
		"promote":  func(w *world, id string) ([]ledger.Draft, error) { return w.Promote(id, DefaultChannel) },
	}
	for _, c := range []struct{ state, verb, want string }{
		{"unactivated", "activate", "filled activated image-added"},
		{"unactivated", "disable", "NOT_ACTIVE"},
		{"unactivated", "delete", "deleted"},
		{"unactivated", "promote", "NOT_ACTIVE"},
		{"active", "activate", ""},
		{"active", "disable", "disabled"},
		{"active", "delete", "ACTIVE"},
		{"active", "promote", ""},
		{"disabled", "activate", "enabled"},
		{"disabled", "disable", ""},
		{"disabled", "delete", "image-removed deleted"},
		{"disabled", "promote", "NOT_ACTIVE"},
		{"deleted", "activate", "NO_MATCH"},
		{"deleted", "disable", "NO_MATCH"},
		{"deleted", "delete", "NO_MATCH"},
		{"deleted", "promote", "NO_MATCH"},
	} {
		t.Run(c.state+" "+c.verb, func(t *testing.T) {
			w := newWorld()
			id := w.inState(t, c.state)
			drafts, err := decide[c.verb](w, id)
			have := fault.RefusalOf(err).GetCode()
			for _, d := range drafts {
				have = strings.TrimSpace(have + " " + d.Name())
			}
			if have != c.want {
				t.Fatalf("gives %q (%v), want %q", have, err, c.want)
			}
			w.do(t, drafts, nil)
		})
	}
}

// inState makes an image and leads it to a state.
func (w *world) inState(t *testing.T, state string) string {
	m := manifest("a", "1.0.0", "amd64", "x")
	w.do(t, w.CreateDefault(), nil)
	drafts, err := w.Create(m)
	w.do(t, drafts, err)
	if state == "unactivated" {
		return m.Id
	}
	w.active(t, m)
	if state != "active" {
		drafts, err = w.Disable(m.Id, "why")
		w.do(t, drafts, err)
	}
	if state == "deleted" {
		drafts, err = w.Delete(m.Id)
		w.do(t, drafts, err)
	}
	return m.Id
}

func TestADisabledImageIsNotEnabledWithoutACheckOfItsContent(t *testing.T) {
	w := newWorld()
	id := w.inState(t, "disabled")
	if _, err := w.Activate(id, DefaultChannel, false); fault.RefusalOf(err).GetCode() != "MOVED" {
		t.Fatal(err)
	}
}

func TestPromotionMakesAnImageTheNewestOfItsChannel(t *testing.T) {
	w := newWorld()
	a, b := w.active(t, manifest("a", "1.0.0", "amd64", "x")), w.active(t, manifest("a", "1.1.0", "amd64", "y"))
	if c, _ := w.Channel(DefaultChannel); !slices.Equal(c.ImageIds, []string{a, b}) {
		t.Fatal(c.ImageIds)
	}
	drafts, err := w.Promote(a, DefaultChannel)
	w.do(t, drafts, err)
	if c, _ := w.Channel(DefaultChannel); !slices.Equal(c.ImageIds, []string{b, a}) {
		t.Fatal(c.ImageIds)
	}
}

func TestTheDefaultChannelIsMadeOnceAndCannotBeDeleted(t *testing.T) {
	w := newWorld()
	drafts := w.CreateDefault()
	if drafts[0].Guard.Sequence != 0 || drafts[0].Guard.Subject == "" {
		t.Fatalf("guard %v", drafts[0].Guard)
	}
	w.do(t, drafts, nil)
	if again := w.CreateDefault(); len(again) != 0 {
		t.Fatal(again)
	}
	if _, err := w.DeleteChannel(DefaultChannel); fault.RefusalOf(err).GetCode() != "DEFAULT_CHANNEL" {
		t.Fatal(err)
	}
}

func TestAChannelNameIsChecked(t *testing.T) {
	w := newWorld()
	for _, name := range []string{"", "A", "a.b", "*", strings.Repeat("a", 64)} {
		if _, err := w.CreateChannel(name, ""); fault.RefusalOf(err).GetCode() != "BAD_NAME" {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestAChannelThatGoesLeavesItsImages(t *testing.T) {
	w := newWorld()
	id := w.active(t, manifest("a", "1.0.0", "amd64", "x"))
	drafts, err := w.CreateChannel("dev", "for trying out")
	w.do(t, drafts, err)
	drafts, err = w.Promote(id, "dev")
	w.do(t, drafts, err)
	drafts, err = w.DeleteChannel("dev")
	w.do(t, drafts, err)
	if i, _ := w.Image(id); !cmp.Equal(i.Channels, []string{"release"}) {
		t.Fatal(i.Channels)
	}
}

func TestAnImageDeletedWhileAChannelGetsItLeavesTheChannel(t *testing.T) {
	w := newWorld()
	id := w.inState(t, "disabled")
	drafts, err := w.CreateChannel("dev", "")
	w.do(t, drafts, err)
	deletion, _ := w.Delete(id)
	w.fold(channelFact("dev", &channelv1.ImageAdded{ImageId: id})) // decided while the image was active
	if !w.holds(deletion) {
		t.Fatal("the deletion is not recorded")
	}
	w.do(t, deletion, nil)
	if c, _ := w.Channel("dev"); len(c.ImageIds) != 0 {
		t.Fatal(c.ImageIds)
	}
}

func TestTheNearestNameIsTheOneWithTheFewestEdits(t *testing.T) {
	for want, name := range map[string]string{"relase": "release", "dve": "dev", "staging": "staging", "zzzzzz": "", "": ""} {
		if have := nearest(want, []string{"dev", "release", "staging"}); have != name {
			t.Errorf("nearest to %q is %q, want %q", want, have, name)
		}
	}
}

func TestAFactFitsOnlyInTheStatesOfTheTable(t *testing.T) {
	fits := map[string]string{
		"unactivated": "filled deleted",
		"filled":      "activated deleted",
		"active":      "disabled",
		"disabled":    "enabled deleted",
		"deleted":     "",
	}
	bodies := []proto.Message{&imagev1.Filled{}, &imagev1.Activated{}, &imagev1.Disabled{}, &imagev1.Enabled{}, &imagev1.Deleted{}}
	for state, want := range fits {
		have := []string{}
		for _, b := range bodies {
			w := newWorld()
			from, filled := state, state == "filled"
			if filled {
				from = "unactivated"
			}
			id := w.inState(t, from)
			if filled {
				w.fold(imageFact(id, &imagev1.Filled{}))
			}
			if f := imageFact(id, b); w.fold(f) {
				have = append(have, f.Name())
			}
		}
		if d := cmp.Diff(strings.Fields(want), have); d != "" {
			t.Errorf("%s: %s", state, d)
		}
	}
}
