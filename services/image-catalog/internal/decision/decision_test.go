package decision_test

import (
	"fmt"
	"slices"
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

	"github.com/garrison-fleet/garrison/services/image-catalog/internal/decision"
	"github.com/garrison-fleet/garrison/services/image-catalog/internal/view"
)

// world is a view and the end of the ledger that it was folded from.
type world struct {
	*view.View
	end uint64
}

func newWorld() *world { return &world{View: view.New()} }

// fold applies a fact as the next one of the ledger.
func (w *world) fold(f ledger.Fact) bool {
	w.end++
	f.Sequence, f.At = w.end, time.Unix(int64(w.end), 0)
	return w.Apply(f)
}

// holds reports whether the guards of drafts hold, as the bus would.
func (w *world) holds(drafts []ledger.Draft) bool {
	for _, d := range drafts {
		have := w.ImageSequence(d.Key)
		if d.Noun == ledger.Channel {
			have = w.ChannelSequence(d.Key)
		}
		if strings.Contains(d.Guard.Subject, "*.created") {
			have = w.CreatedSequence()
		}
		if d.Guard.Subject != "" && d.Guard.Sequence != have {
			return false
		}
	}
	return true
}

// do folds what was decided.
func (w *world) do(t testing.TB) func(drafts []ledger.Draft, err error) {
	return func(drafts []ledger.Draft, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range drafts {
			if !w.fold(d.Fact) {
				t.Fatalf("%s was decided and does not fit", d.Subject())
			}
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

// active adds an active image to the default channel.
func (w *world) active(t testing.TB, m *imagev1.Manifest) string {
	t.Helper()
	do := w.do(t)
	do(decision.CreateDefaultChannel(w.View), nil)
	do(decision.Create(w.View, m))
	do(decision.Activate(w.View, m.Id, decision.DefaultChannel, true))
	return m.Id
}

func wantRefusal(t *testing.T, err error, kind fault.Kind, line string) {
	t.Helper()
	if !fault.Is(err, kind) || err.Error() != line {
		t.Fatalf("refused (%v):\n%v\nwant (%v):\n%s", fault.KindOf(err), err, kind, line)
	}
}

func TestTheSameManifestAgainNeedsNothing(t *testing.T) {
	w := newWorld()
	m := manifest("a", "1.0.0", "amd64", "x")
	w.active(t, m)
	if drafts, err := decision.Create(w.View, proto.CloneOf(m)); len(drafts) != 0 || err != nil {
		t.Fatal(drafts, err)
	}
}

func TestAVersionIsNotCreatedTwice(t *testing.T) {
	w := newWorld()
	m := manifest("a", "1.0.0", "amd64", "x")
	w.active(t, m)
	_, err := decision.Create(w.View, manifest("a", "1.0.0", "amd64", "y"))
	if fault.RefusalOf(err).GetCode() != "VERSION_EXISTS" || !fault.Is(err, fault.Conflict) {
		t.Fatal(err)
	}
	other := proto.CloneOf(m)
	other.Description, other.Tags = "changed", map[string]string{"a": "b"}
	_, err = decision.Create(w.View, other)
	wantRefusal(t, err, fault.Conflict, "image-catalog: VERSION_EXISTS: a 1.0.0 for linux/amd64 exists with the same "+
		"content and another tags, description; a version never changes, so build it as a new one. "+
		"Nearest: "+m.Id+". Try: garrison image show "+m.Id)
}

func TestImagesWithOneDigestMustHaveTheSameChunks(t *testing.T) {
	w := newWorld()
	w.active(t, manifest("a", "1.0.0", "amd64", "x"))
	m := manifest("a", "1.0.1", "amd64", "x")
	m.Blob.ChunkDigests = [][]byte{[]byte("other")}
	_, err := decision.Create(w.View, m)
	if fault.RefusalOf(err).GetCode() != "OTHER_CHUNKS" {
		t.Fatal(err)
	}
}

func TestADeletedBuildMayBeCreatedAgain(t *testing.T) {
	w := newWorld()
	do := w.do(t)
	m := manifest("a", "1.0.0", "amd64", "x")
	id := w.active(t, m)
	do(decision.Disable(w.View, id, "bad"))
	do(decision.Delete(w.View, id, nil))
	if _, ok := w.Image(id); ok {
		t.Fatal("still there")
	}
	w.active(t, m)
}

func TestEachStateRefusesWhatDoesNotFit(t *testing.T) {
	decisions := map[string]func(*world, string) ([]ledger.Draft, error){
		"activate": func(w *world, id string) ([]ledger.Draft, error) {
			return decision.Activate(w.View, id, decision.DefaultChannel, true)
		},
		"disable": func(w *world, id string) ([]ledger.Draft, error) { return decision.Disable(w.View, id, "") },
		"delete":  func(w *world, id string) ([]ledger.Draft, error) { return decision.Delete(w.View, id, nil) },
		"promote": func(w *world, id string) ([]ledger.Draft, error) {
			return decision.Promote(w.View, id, decision.DefaultChannel)
		},
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
			drafts, err := decisions[c.verb](w, id)
			have := fault.RefusalOf(err).GetCode()
			for _, d := range drafts {
				have = strings.TrimSpace(have + " " + d.Name())
			}
			if have != c.want {
				t.Fatalf("drafts %q (%v), want %q", have, err, c.want)
			}
			w.do(t)(drafts, nil)
		})
	}
}

// inState creates an image and brings it to a state.
func (w *world) inState(t *testing.T, state string) string {
	do := w.do(t)
	m := manifest("a", "1.0.0", "amd64", "x")
	w.do(t)(decision.CreateDefaultChannel(w.View), nil)
	do(decision.Create(w.View, m))
	if state == "unactivated" {
		return m.Id
	}
	w.active(t, m)
	if state != "active" {
		do(decision.Disable(w.View, m.Id, "why"))
	}
	if state == "deleted" {
		do(decision.Delete(w.View, m.Id, nil))
	}
	return m.Id
}

func TestAnImageThatIsActivatedAgainJoinsNoOtherChannel(t *testing.T) {
	w := newWorld()
	do := w.do(t)
	id := w.inState(t, "active")
	do(decision.CreateChannel(w.View, "beta", ""))
	do(decision.Promote(w.View, id, "beta"))
	do(decision.Demote(w.View, id, decision.DefaultChannel))
	do(decision.Disable(w.View, id, ""))
	do(decision.Activate(w.View, id, "", true))
	if i, _ := w.Image(id); i.State != imagev1.State_STATE_ACTIVE || !slices.Equal(i.Channels, []string{"beta"}) {
		t.Fatalf("it is %s in %v, want it active in beta alone", i.State, i.Channels)
	}
}

func TestADisabledImageIsNotEnabledWithoutACheckOfItsContent(t *testing.T) {
	w := newWorld()
	id := w.inState(t, "disabled")
	_, err := decision.Activate(w.View, id, decision.DefaultChannel, false)
	if fault.RefusalOf(err).GetCode() != "CONFLICT" {
		t.Fatal(err)
	}
}

func TestPromotionMakesAnImageTheNewestOfItsChannel(t *testing.T) {
	w := newWorld()
	do := w.do(t)
	a, b := w.active(t, manifest("a", "1.0.0", "amd64", "x")), w.active(t, manifest("a", "1.1.0", "amd64", "y"))
	if c, _ := w.Channel(decision.DefaultChannel); !slices.Equal(c.ImageIds, []string{a, b}) {
		t.Fatal(c.ImageIds)
	}
	do(decision.Promote(w.View, a, decision.DefaultChannel))
	if c, _ := w.Channel(decision.DefaultChannel); !slices.Equal(c.ImageIds, []string{b, a}) {
		t.Fatal(c.ImageIds)
	}
}

func TestTheDefaultChannelIsCreatedOnceAndCannotBeDeleted(t *testing.T) {
	w := newWorld()
	drafts := decision.CreateDefaultChannel(w.View)
	if drafts[0].Guard.Sequence != 0 || drafts[0].Guard.Subject == "" {
		t.Fatalf("guard %v", drafts[0].Guard)
	}
	w.do(t)(drafts, nil)
	if again := decision.CreateDefaultChannel(w.View); len(again) != 0 {
		t.Fatal(again)
	}
	_, err := decision.DeleteChannel(w.View, decision.DefaultChannel)
	if fault.RefusalOf(err).GetCode() != "DEFAULT_CHANNEL" {
		t.Fatal(err)
	}
}

func TestAChannelNameIsChecked(t *testing.T) {
	w := newWorld()
	for _, name := range []string{"", "A", "a.b", "*", strings.Repeat("a", 64)} {
		if _, err := decision.CreateChannel(w.View, name, ""); fault.RefusalOf(err).GetCode() != "BAD_NAME" {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestAnImageDeletedWhileItIsPromotedLeavesTheChannel(t *testing.T) {
	w := newWorld()
	do := w.do(t)
	id := w.inState(t, "disabled")
	do(decision.CreateChannel(w.View, "dev", ""))
	deletion, _ := decision.Delete(w.View, id, nil)
	// The promotion was decided while the image was active.
	w.fold(ledger.Fact{Noun: ledger.Channel, Key: "dev", Body: &channelv1.ImageAdded{ImageId: id}})
	if !w.holds(deletion) {
		t.Fatal("the deletion is not recorded")
	}
	w.do(t)(deletion, nil)
	if c, _ := w.Channel("dev"); len(c.ImageIds) != 0 {
		t.Fatal(c.ImageIds)
	}
}
