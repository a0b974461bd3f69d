package view

import (
	"bytes"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// someManifest returns one of few manifests, so that they collide: two versions of two contents for
// two agents.
func someManifest(t *rapid.T) *imagev1.Manifest {
	return manifest(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "agent"),
		rapid.SampledFrom([]string{"1.0.0", "1.1.0"}).Draw(t, "version"), "amd64",
		rapid.SampledFrom([]string{"x", "y"}).Draw(t, "content"))
}

func someChannel(t *rapid.T) string {
	return rapid.SampledFrom([]string{"release", "dev"}).Draw(t, "channel")
}

// anyFact is a fact that may or may not fit.
func anyFact(t *rapid.T) ledger.Fact {
	m, channel := someManifest(t), someChannel(t)
	bodies := []proto.Message{
		&imagev1.Created{Manifest: m}, &imagev1.Filled{}, &imagev1.Activated{}, &imagev1.Disabled{Reason: "r"},
		&imagev1.Enabled{}, &imagev1.Deleted{},
		&channelv1.Created{Description: channel}, &channelv1.ImageAdded{ImageId: m.Id},
		&channelv1.ImageRemoved{ImageId: m.Id}, &channelv1.Deleted{},
	}
	n := rapid.IntRange(0, len(bodies)-1).Draw(t, "fact")
	if n < 6 {
		return imageFact(m.Id, bodies[n])
	}
	return channelFact(channel, bodies[n])
}

func canonical(t *rapid.T, v *View) []byte {
	b, err := fold.CanonicalOf(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// reloaded returns the view that is loaded from a snapshot of v.
func reloaded(t *rapid.T, v *View) *View {
	out := New()
	if err := fold.LoadCanonical(out, canonical(t, v)); err != nil {
		t.Fatal(err)
	}
	return out
}

// questions asks everything that the index answers.
func questions(t *rapid.T, v *View) map[string]any {
	out := map[string]any{}
	for name, q := range map[string]*catalogv1.ListImagesRequest{
		"all": {}, "a": {Agent: "a"}, "active": {State: imagev1.State_STATE_ACTIVE},
		"unactivated": {State: imagev1.State_STATE_UNACTIVATED}, "disabled": {State: imagev1.State_STATE_DISABLED},
		"in release": {Channel: "release"}, "in dev": {Channel: "dev"},
	} {
		part, err := v.List(q)
		ids := []string{}
		for _, i := range part.Rows {
			ids = append(ids, i.Manifest.Id)
		}
		out[name] = ids
		if err != nil {
			out[name] = err.Error()
		}
	}
	for _, content := range []string{"x", "y"} {
		out[content] = v.ByDigest(manifest("", "", "", content).Blob.Digest)
	}
	for id := range v.images.All() {
		i, _ := v.Image(id)
		out[id] = i.Channels
	}
	for s, o := range v.index.byState {
		out[s.String()] = o.Len()
	}
	for c, o := range v.index.byChannel {
		out["channel "+c] = o.Len()
	}
	out["builds"] = maps.Clone(v.index.byBuild)
	out["ids"] = v.index.ids.Keys()
	return out
}

func TestAFoldSplitBySnapshotsAnywhereHasTheSameView(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole, split := newWorld(), newWorld()
		for range rapid.IntRange(0, 60).Draw(t, "facts") {
			f := anyFact(t)
			g := f
			g.Body = proto.Clone(f.Body)
			if a, b := whole.fold(f), split.fold(g); a != b {
				t.Fatalf("%s fits: %v and %v", f.Subject(), a, b)
			}
			if rapid.IntRange(0, 5).Draw(t, "snapshot") == 0 {
				split.View = reloaded(t, split.View)
			}
		}
		if !bytes.Equal(canonical(t, whole.View), canonical(t, split.View)) {
			t.Fatal("the views differ")
		}
		if d := cmp.Diff(questions(t, whole.View), questions(t, split.View)); d != "" {
			t.Fatalf("the indexes differ: %s", d)
		}
		if d := cmp.Diff(questions(t, reloaded(t, whole.View)), questions(t, whole.View)); d != "" {
			t.Fatalf("the index differs from a new one: %s", d)
		}
	})
}

func TestAFactThatDoesNotFitMovesTheSequenceOfItsKeyAndNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		for range rapid.IntRange(0, 60).Draw(t, "facts") {
			before := questions(t, w.View)
			f := anyFact(t)
			fit := w.fold(f)
			have := w.images.Sequence(f.Key)
			if f.Noun == ledger.Channel {
				have = w.channels.Sequence(f.Key)
			}
			if have != w.end {
				t.Fatalf("the key of %s is at %d, want %d", f.Subject(), have, w.end)
			}
			if d := cmp.Diff(before, questions(t, w.View)); !fit && d != "" {
				t.Fatalf("%s did not fit and changed: %s", f.Subject(), d)
			}
		}
	})
}
