package view

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// release is the channel that the tests add images to.
const release = "release"

// world is a view and the end of the ledger that it was folded from.
type world struct {
	*View
	end uint64
}

// newWorld returns a world with the channel release.
func newWorld() *world {
	w := &world{View: New()}
	w.fold(channelFact(release, &channelv1.Created{Default: true}))
	return w
}

func imageFact(id string, body proto.Message) ledger.Fact {
	return ledger.Fact{Noun: ledger.Image, Key: id, Body: body}
}

func channelFact(name string, body proto.Message) ledger.Fact {
	return ledger.Fact{Noun: ledger.Channel, Key: name, Body: body}
}

// fold applies a fact as the next one of the ledger.
func (w *world) fold(f ledger.Fact) bool {
	w.end++
	f.Sequence, f.At = w.end, time.Unix(int64(w.end), 0)
	return w.Apply(f)
}

// image folds facts about an image, which must fit.
func (w *world) image(t testing.TB, id string, bodies ...proto.Message) {
	t.Helper()
	for _, b := range bodies {
		if f := imageFact(id, b); !w.fold(f) {
			t.Fatalf("%s does not fit", f.Subject())
		}
	}
}

// channel folds facts about a channel, which must fit.
func (w *world) channel(t testing.TB, name string, bodies ...proto.Message) {
	t.Helper()
	for _, b := range bodies {
		if f := channelFact(name, b); !w.fold(f) {
			t.Fatalf("%s does not fit", f.Subject())
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

// active adds an active image to the channel release.
func (w *world) active(t testing.TB, m *imagev1.Manifest) string {
	t.Helper()
	w.image(t, m.Id, &imagev1.Created{Manifest: m}, &imagev1.Filled{}, &imagev1.Activated{})
	w.channel(t, release, &channelv1.ImageAdded{ImageId: m.Id})
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
			t.Errorf("%q resolves to %q, %v", ref, have, err)
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
		"cn-agent@1.25.9": `no image of agent "cn-agent" version 1.25.9 (7 images searched, newest 1.25.6). ` +
			`Nearest: cn-agent@1.25.6. Try: garrison image list cn-agent`,
		"cn-agnt@1.25.1": `no image of agent "cn-agnt" (8 images of 2 agents searched). ` +
			`Nearest: cn-agent. Try: garrison image list`,
		"cn-agent": `"cn-agent" is an agent with 7 images; name one by its id or as agent@version. ` +
			`Nearest: cn-agent@1.25.6. Try: garrison image list cn-agent`,
		"0000000f": `no image has an id that starts with "0000000f" (8 images searched); ` +
			`name one by its id, a prefix of it, or as agent@version. Try: garrison image list`,
		"": `no image has an id that starts with "" (8 images searched); ` +
			`name one by its id, a prefix of it, or as agent@version. Try: garrison image list`,
	} {
		_, err := w.Resolve(ref)
		wantRefusal(t, err, fault.NotFound, "image-catalog: NO_MATCH: "+line)
	}
}

func TestAVersionForTwoPlatformsIsAmbiguous(t *testing.T) {
	w := newWorld()
	a, b := w.active(t, manifest("a", "1.0.0", "amd64", "x")), w.active(t, manifest("a", "1.0.0", "arm64", "y"))
	_, err := w.Resolve("a@1.0.0")
	if fault.RefusalOf(err).GetCode() != "AMBIGUOUS" || !strings.Contains(err.Error(), a[:8]) ||
		!strings.Contains(err.Error(), b[:8]) {
		t.Fatal(err)
	}
}

func TestAnUnknownChannelIsRefusedWithTheNearest(t *testing.T) {
	_, err := newWorld().Channel("relaese")
	wantRefusal(t, err, fault.NotFound,
		`image-catalog: UNKNOWN_CHANNEL: no channel "relaese" (1 channel searched: release). `+
			`Nearest: release. Try: garrison channel list`)
}

func TestADeletedChannelLeavesItsImages(t *testing.T) {
	w := newWorld()
	id := w.active(t, manifest("a", "1.0.0", "amd64", "x"))
	w.channel(t, "dev", &channelv1.Created{}, &channelv1.ImageAdded{ImageId: id}, &channelv1.Deleted{})
	if i, _ := w.Image(id); !slices.Equal(i.Channels, []string{release}) {
		t.Fatal(i.Channels)
	}
}

func TestADeletedImageLeavesChannelsThatStillHoldIt(t *testing.T) {
	w := newWorld()
	id := w.active(t, manifest("a", "1.0.0", "amd64", "x"))
	w.image(t, id, &imagev1.Disabled{}, &imagev1.Deleted{})
	if c, _ := w.Channel(release); len(c.ImageIds) != 0 {
		t.Fatal(c.ImageIds)
	}
	w.active(t, manifest("a", "1.0.0", "amd64", "x"))
}

func TestABuildHasOneImage(t *testing.T) {
	w := newWorld()
	w.active(t, manifest("a", "1.0.0", "amd64", "x"))
	other := manifest("a", "1.0.0", "amd64", "y")
	if w.fold(imageFact(other.Id, &imagev1.Created{Manifest: other})) {
		t.Fatal("another content of the same build fits")
	}
	if w.CreatedSequence() != w.end {
		t.Fatalf("the last created fact is at %d, want %d", w.CreatedSequence(), w.end)
	}
}

func TestAnUnknownImageJoinsNoChannel(t *testing.T) {
	if newWorld().fold(channelFact(release, &channelv1.ImageAdded{ImageId: "x"})) {
		t.Fatal("it fits")
	}
}
