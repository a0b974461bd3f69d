package catalog

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"

	"github.com/garrison-fleet/garrison/services/image-catalog/internal/view"
)

// rolled records a fact about a rollout, as the registry does.
func rolled(t *testing.T, w *bus.Writer, id string, body proto.Message) {
	t.Helper()
	f := ledger.Fact{
		Noun: ledger.Rollout, Key: id, Body: body, ID: ident.New(), At: time.Now(), Source: ledger.Registry,
		Actor: ledger.Registry,
	}
	if _, err := w.Append(t.Context(), ledger.Free(f)); err != nil {
		t.Fatal(err)
	}
}

func TestAChannelOffersWhatARolloutBroughtOnceItSucceededUntilItIsUndone(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	_, stop := run(t, b)
	c := newClient(t, b)
	must[*catalogv1.CreateChannelResponse](c, "CreateChannel", &catalogv1.CreateChannelRequest{Name: "stable"})
	s := newSample("web", "1.0.0", "seed", 100)
	c.upload(s)
	c.activate(imageID(s), "")
	stop() // it records what it finds when it starts, too

	registry := b.Writer(t, b.Dial(t, ledger.Registry))
	id := ident.New()
	then := []*rolloutv1.Standing{{Change: &rolloutv1.Standing_Promotion{
		Promotion: &rolloutv1.StandingPromotion{Channel: "stable", ImageIds: []string{imageID(s)}},
	}}}
	rolled(t, registry, id, &rolloutv1.Succeeded{Then: then})
	run(t, b)
	run(t, b) // two replicas record it once
	offers := func() bool { return slices.Contains(c.channel("stable").GetImageIds(), imageID(s)) }
	polltest.Eventually(t, "the channel offers the image", offers)
	rolled(t, registry, id, &rolloutv1.Undone{ByRolloutId: ident.New(), TakenBack: then})
	polltest.Eventually(t, "the channel no longer offers the image", func() bool { return !offers() })
	added := 0
	for _, name := range facts(t, c.conn) {
		if name == "channel.image-added" {
			added++
		}
	}
	if added != 2 { // to the default channel by its activation, and to stable
		t.Errorf("images were added %d times; want twice: %v", added, facts(t, c.conn))
	}
}

func TestAChannelOffersAnImageOfARolloutOnceItIsActiveAgain(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	catalog, _ := run(t, b)
	c := newClient(t, b)
	must[*catalogv1.CreateChannelResponse](c, "CreateChannel", &catalogv1.CreateChannelRequest{Name: "stable"})
	s := newSample("web", "1.0.0", "seed", 100)
	c.upload(s)
	c.activate(imageID(s), "")
	must[*catalogv1.DisableImageResponse](c, "DisableImage", &catalogv1.DisableImageRequest{Image: imageID(s)})
	id := ident.New()
	rolled(t, b.Writer(t, b.Dial(t, ledger.Registry)), id, &rolloutv1.Succeeded{Then: []*rolloutv1.Standing{
		{Change: &rolloutv1.Standing_Promotion{
			Promotion: &rolloutv1.StandingPromotion{Channel: "stable", ImageIds: []string{imageID(s)}},
		}},
	}})
	var due []view.Due
	polltest.Eventually(t, "the promotion is due", func() bool {
		catalog.follower.Read(func() { due = catalog.view.Promotions.Due() })
		return len(due) > 0
	})
	if len(due[0].Images) > 0 || !slices.Equal(due[0].Waiting, []string{imageID(s)}) {
		t.Errorf("%+v is due; want the image to wait", due)
	}
	c.activate(imageID(s), "")
	polltest.Eventually(t, "the channel offers the image", func() bool {
		return slices.Contains(c.channel("stable").GetImageIds(), imageID(s))
	})
}

func TestWhatWaitsForAnImageIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &promotions{catalog: &Catalog{cfg: Config{Log: zerolog.New(&out)}}}
	waiting := []view.Due{{Rollout: "r", Channel: "stable", Waiting: []string{"a"}}}
	for n, c := range []struct {
		due   []view.Due
		lines int
	}{{waiting, 1}, {waiting, 1}, {nil, 1}, {waiting, 2}} {
		p.noteWaiting(c.due)
		if have := bytes.Count(out.Bytes(), []byte("\n")); have != c.lines {
			t.Errorf("after look %d: %d lines, want %d: %s", n+1, have, c.lines, &out)
		}
	}
}
