package decision_test

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"

	"github.com/garrison-fleet/garrison/services/image-catalog/internal/decision"
	"github.com/garrison-fleet/garrison/services/image-catalog/internal/view"
)

// someManifest returns one of few manifests, so that they collide.
func someManifest(t *rapid.T) *imagev1.Manifest {
	return manifest(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "agent"),
		rapid.SampledFrom([]string{"1.0.0", "1.1.0"}).Draw(t, "version"), "amd64",
		rapid.SampledFrom([]string{"x", "y"}).Draw(t, "content"))
}

func someChannel(t *rapid.T) string {
	return rapid.SampledFrom([]string{"release", "dev"}).Draw(t, "channel")
}

// anyDecision takes a decision and returns its drafts; a refusal has none.
func anyDecision(t *rapid.T, v *view.View) []ledger.Draft {
	m, channel := someManifest(t), someChannel(t)
	decisions := []func() ([]ledger.Draft, error){
		func() ([]ledger.Draft, error) { return decision.Create(v, m) },
		func() ([]ledger.Draft, error) { return decision.Activate(v, m.Id, channel, true) },
		func() ([]ledger.Draft, error) { return decision.Disable(v, m.Id, "r") },
		func() ([]ledger.Draft, error) { return decision.Delete(v, m.Id, nil) },
		func() ([]ledger.Draft, error) { return decision.Promote(v, m.Id, channel) },
		func() ([]ledger.Draft, error) { return decision.CreateChannel(v, channel, channel) },
		func() ([]ledger.Draft, error) { return decision.CreateDefaultChannel(v), nil },
		func() ([]ledger.Draft, error) { return decision.DeleteChannel(v, channel) },
	}
	drafts, _ := rapid.SampledFrom(decisions).Draw(t, "decision")()
	return drafts
}

// Two catalogs decide, each on a view that lags behind by any number of facts. A unit is recorded
// when its guards hold at the end of the ledger.
func TestCatalogsThatDecideOnStaleViewsKeepThePromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		end := newWorld()
		behind := []*world{newWorld(), newWorld()}
		var log []ledger.Fact
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			w := rapid.SampledFrom(behind).Draw(t, "catalog")
			for range rapid.IntRange(0, len(log)-int(w.end)).Draw(t, "catches up by") {
				f := log[w.end]
				f.Body = proto.Clone(f.Body)
				w.fold(f)
			}
			drafts := anyDecision(t, w.View)
			if !end.holds(drafts) {
				continue
			}
			for _, d := range drafts {
				f := d.Fact
				f.Body = proto.Clone(f.Body)
				log = append(log, f)
				if fit := end.fold(d.Fact); !fit && d.Name() != "image-added" && d.Name() != "image-removed" {
					t.Fatalf("%s was recorded and does not fit", d.Subject())
				}
			}
			checkPromises(t, end.View)
		}
	})
}

func checkPromises(t *rapid.T, v *view.View) {
	images, err := v.List(&catalogv1.ListImagesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	builds := map[string]string{}
	for _, i := range images.Rows {
		id, build := i.Manifest.Id, view.Label(i.Manifest)
		known[id] = true
		if other, taken := builds[build]; taken {
			t.Fatalf("%s and %s are one build", id, other)
		}
		builds[build] = id
		if i.State != imagev1.State_STATE_UNACTIVATED && !i.Filled {
			t.Fatalf("%s is %v and not filled", id, i.State)
		}
	}
	channels, err := v.Channels(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range channels.Rows {
		for n, id := range c.ImageIds {
			if !known[id] || slices.Contains(c.ImageIds[:n], id) {
				t.Fatalf("channel %s holds %s, which is deleted or there twice", c.Name, id)
			}
		}
	}
}
