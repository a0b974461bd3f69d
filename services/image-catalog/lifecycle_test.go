package catalog

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/seal"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

func TestActivatingTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	run(t, b)
	c := newClient(t, b)
	s := newSample("a", "1.0.0", "s", 100)
	c.upload(s)
	c.activate(s.Id, "")
	before := facts(t, c.conn)
	c.activate(s.Id, "")
	if d := cmp.Diff(before, facts(t, c.conn)); d != "" {
		t.Fatal(d)
	}
}

func TestADisabledImageIsEnabledByActivatingItAgain(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	run(t, b)
	c := newClient(t, b)
	s := newSample("a", "1.0.0", "s", 100)
	c.upload(s)
	c.activate(s.Id, "")
	i := must[*catalogv1.DisableImageResponse](c, "DisableImage",
		&catalogv1.DisableImageRequest{Image: "a@1.0.0", Reason: "leaks"}).Image
	if i.State != imagev1.State_STATE_DISABLED || i.Reason != "leaks" {
		t.Fatalf("%v for %q", i.State, i.Reason)
	}
	if i := c.activate(s.Id, ""); i.State != imagev1.State_STATE_ACTIVE || i.Reason != "" {
		t.Fatalf("%v for %q", i.State, i.Reason)
	}
}

func TestADisabledImageWhoseContentIsGoneStaysDisabled(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	cat, _ := run(t, b)
	c := newClient(t, b)
	s := newSample("a", "1.0.0", "s", 3000)
	c.upload(s)
	c.activate(s.Id, "")
	must[*catalogv1.DisableImageResponse](c, "DisableImage", &catalogv1.DisableImageRequest{Image: s.Id})
	if err := cat.cfg.Conn.Purge(t.Context(), topology.Blobs, topology.BlobSubject(s.Blob.Digest, 1)); err != nil {
		t.Fatal(err)
	}
	refused[*catalogv1.ActivateImageResponse](c, "ActivateImage", &catalogv1.ActivateImageRequest{Image: s.Id},
		fault.Conflict, "INCOMPLETE")
	c.upload(s) // a disabled image may be filled again
	c.activate(s.Id, "")
}

func TestAnActiveImageIsNotDeletedAndADisabledOneIsWithItsContent(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	run(t, b)
	c := newClient(t, b)
	s := newSample("a", "1.0.0", "s", 3000)
	c.upload(s)
	c.activate(s.Id, "")
	q := &catalogv1.DeleteImageRequest{Image: s.Id}
	refused[*catalogv1.DeleteImageResponse](c, "DeleteImage", q, fault.Conflict, "ACTIVE")
	must[*catalogv1.DisableImageResponse](c, "DisableImage", &catalogv1.DisableImageRequest{Image: s.Id})
	must[*catalogv1.DeleteImageResponse](c, "DeleteImage", q)
	refused[*catalogv1.GetImageResponse](c, "GetImage", &catalogv1.GetImageRequest{Image: s.Id}, fault.NotFound,
		"NO_MATCH")
	left, err := c.conn.Subjects(t.Context(), topology.Blobs, topology.BlobSubjects(s.Blob.Digest))
	if len(left) != 0 || err != nil {
		t.Fatal(left, err)
	}
	if ids := c.channel("release").ImageIds; len(ids) != 0 {
		t.Fatal(ids)
	}
	c.upload(s)
	c.activate(s.Id, "")
}

func TestAnImageWhoseStateChangedSinceACallerLookedIsNotDeleted(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	run(t, b)
	c := newClient(t, b)
	s := newSample("a", "1.0.0", "s", 3000)
	c.upload(s)
	disable := &catalogv1.DisableImageRequest{Image: s.Id}
	c.activate(s.Id, "")
	seen := must[*catalogv1.DisableImageResponse](c, "DisableImage", disable).Image
	stale := &catalogv1.DeleteImageRequest{Image: s.Id, IfSince: seen.Since}
	c.activate(s.Id, "")
	refused[*catalogv1.DeleteImageResponse](c, "DeleteImage", stale, fault.Conflict, code.RevisionChanged)
	again := must[*catalogv1.DisableImageResponse](c, "DisableImage", disable).Image
	refused[*catalogv1.DeleteImageResponse](c, "DeleteImage", stale, fault.Conflict, code.RevisionChanged)
	must[*catalogv1.DeleteImageResponse](c, "DeleteImage",
		&catalogv1.DeleteImageRequest{Image: s.Id, IfSince: again.Since})
}

func TestAManifestIsCheckedBeforeAnythingElse(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	run(t, b)
	c := newClient(t, b)
	m := newSample("a", "1.0.0", "s", 100).Manifest
	m.Version = "1.0.1"
	r := refused[*catalogv1.CreateImageResponse](c, "CreateImage", &catalogv1.CreateImageRequest{Manifest: m},
		fault.Invalid, code.WrongID)
	if r.Component != ledger.Catalog {
		t.Fatalf("refused by %q", r.Component)
	}
	refused[*catalogv1.CreateImageResponse](c, "CreateImage", &catalogv1.CreateImageRequest{}, fault.Invalid,
		"MALFORMED")
}

func TestTheSameBuildPublishedAgainIsTheSameImage(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	run(t, b)
	c := newClient(t, b)
	f := built(t, 100)
	first := c.create(f.Manifest())
	again := f.Manifest()
	again.PublishedAt = first.Since
	if !proto.Equal(first, c.create(again)) {
		t.Fatal("it changed")
	}
	_, seed, err := seal.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	if err := seal.Sign(again, seed); err != nil {
		t.Fatal(err)
	}
	refused[*catalogv1.CreateImageResponse](c, "CreateImage", &catalogv1.CreateImageRequest{Manifest: again},
		fault.Conflict, "VERSION_EXISTS")
}

func TestACatalogWithKeysAcceptsOnlyImagesThatOneOfThemSigned(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	public, seed, err := seal.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	_, foreign, err := seal.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	run(t, b, public)
	c := newClient(t, b)
	m := newSample("a", "1.0.0", "s", 100).Manifest
	q := &catalogv1.CreateImageRequest{Manifest: m}
	refused[*catalogv1.CreateImageResponse](c, "CreateImage", q, fault.Invalid, code.UnsignedImage)
	for _, step := range []struct {
		seed []byte
		code string
	}{{foreign, code.UnknownSigner}, {seed, ""}} {
		if err := seal.Sign(m, step.seed); err != nil {
			t.Fatal(err)
		}
		if step.code != "" {
			refused[*catalogv1.CreateImageResponse](c, "CreateImage", q, fault.Invalid, step.code)
		}
	}
	first := c.create(m)
	if !proto.Equal(first.Manifest.Seal, m.Seal) {
		t.Fatalf("it is sealed by %v", first.Manifest.Seal)
	}
	// The same build, published at another time and signed then, is the same image.
	m.PublishedAt = first.Since
	if err := seal.Sign(m, seed); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(first, c.create(m)) {
		t.Fatal("it changed")
	}
	_, third, err := seal.NewKey()
	if err == nil {
		err = seal.Sign(m, third)
	}
	if err != nil {
		t.Fatal(err)
	}
	refused[*catalogv1.CreateImageResponse](c, "CreateImage", q, fault.Conflict, "VERSION_EXISTS")
}

// Images that came before the catalog had keys are not signed by them.
func TestACatalogWithKeysListsTheImagesThatNoneOfThemSigned(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	public, seed, err := seal.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	_, stop := run(t, b)
	c := newClient(t, b)
	signed := newSample("b", "1.0.0", "t", 100).Manifest
	if err := seal.Sign(signed, seed); err != nil {
		t.Fatal(err)
	}
	unsigned := c.create(newSample("a", "1.0.0", "s", 100).Manifest)
	c.create(signed)
	q := &catalogv1.ListImagesRequest{Untrusted: true}
	if r := must[*catalogv1.ListImagesResponse](c, "ListImages", q); len(r.Images) > 0 {
		t.Errorf("without keys %v", r.Images)
	}
	stop()
	run(t, b, public)
	r := must[*catalogv1.ListImagesResponse](c, "ListImages", q)
	if len(r.Images) != 1 || r.Images[0].Manifest.Id != unsigned.Manifest.Id {
		t.Errorf("%v; want the one that is not signed", r.Images)
	}
}

func TestAnImageIsPromotedFromChannelToChannel(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	run(t, b)
	c := newClient(t, b)
	s := newSample("a", "1.0.0", "s", 100)
	c.upload(s)
	for range 2 { // the second time changes nothing
		must[*catalogv1.CreateChannelResponse](c, "CreateChannel",
			&catalogv1.CreateChannelRequest{Name: "dev", Description: "d"})
	}
	refused[*catalogv1.CreateChannelResponse](c, "CreateChannel",
		&catalogv1.CreateChannelRequest{Name: "dev", Description: "e"}, fault.Conflict, "EXISTS")
	q := &catalogv1.PromoteImageRequest{Image: "a@1.0.0", Channel: "release"}
	refused[*catalogv1.PromoteImageResponse](c, "PromoteImage", q, fault.Conflict, "NOT_ACTIVE")
	c.activate(s.Id, "dev")
	i := must[*catalogv1.PromoteImageResponse](c, "PromoteImage", q).Image
	if d := cmp.Diff([]string{"dev", "release"}, i.Channels); d != "" {
		t.Fatal(d)
	}
	must[*catalogv1.DeleteChannelResponse](c, "DeleteChannel", &catalogv1.DeleteChannelRequest{Name: "dev"})
	refused[*catalogv1.DeleteChannelResponse](c, "DeleteChannel", &catalogv1.DeleteChannelRequest{Name: "dev"},
		fault.NotFound, "UNKNOWN_CHANNEL")
	refused[*catalogv1.DeleteChannelResponse](c, "DeleteChannel", &catalogv1.DeleteChannelRequest{Name: "release"},
		fault.Conflict, "DEFAULT_CHANNEL")
	if d := cmp.Diff([]string{"release"}, c.get(s.Id).Channels); d != "" {
		t.Fatal(d)
	}
}

func TestAnImageLeavesAChannelAndStaysActive(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	run(t, b)
	c := newClient(t, b)
	s := newSample("a", "1.0.0", "s", 100)
	c.upload(s)
	c.activate(s.Id, "release")
	must[*catalogv1.CreateChannelResponse](c, "CreateChannel", &catalogv1.CreateChannelRequest{Name: "dev"})
	must[*catalogv1.PromoteImageResponse](c, "PromoteImage",
		&catalogv1.PromoteImageRequest{Image: "a@1.0.0", Channel: "dev"})

	r := must[*catalogv1.DemoteImageResponse](c, "DemoteImage", &catalogv1.DemoteImageRequest{Image: "a@1.0.0"})
	if d := cmp.Diff([]string{"dev"}, r.Image.Channels); d != "" || r.Absent {
		t.Errorf("from the default channel: absent %v, %s", r.Absent, d)
	}
	if r.Image.State != imagev1.State_STATE_ACTIVE {
		t.Errorf("the image is %v; want it active", r.Image.State)
	}
	if r := must[*catalogv1.DemoteImageResponse](c, "DemoteImage",
		&catalogv1.DemoteImageRequest{Image: "a@1.0.0"}); !r.Absent {
		t.Error("the second time does not report that the channel lacks it")
	}
	refused[*catalogv1.DemoteImageResponse](c, "DemoteImage",
		&catalogv1.DemoteImageRequest{Image: "a@1.0.0", Channel: "nosuch"}, fault.NotFound, "UNKNOWN_CHANNEL")
	refused[*catalogv1.DemoteImageResponse](c, "DemoteImage", &catalogv1.DemoteImageRequest{Image: "a@2.0.0"},
		fault.NotFound, "NO_MATCH")
}

func TestImagesAreListedOverTheBus(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	run(t, b)
	c := newClient(t, b)
	for n := range 5 {
		c.create(newSample("a", "1.0."+strconv.Itoa(n), strconv.Itoa(n), 100).Manifest)
	}
	q := &catalogv1.ListImagesRequest{Agent: "a", Page: &apiv1.Page{Limit: 2}}
	have := 0
	for {
		r := must[*catalogv1.ListImagesResponse](c, "ListImages", q)
		have += len(r.Images)
		if q.Page.Cursor = r.NextCursor; r.NextCursor == "" {
			break
		}
	}
	if have != 5 {
		t.Fatalf("%d images listed", have)
	}
}

func TestActivationDisablesAnImageWhoseContentIsPurgedMeanwhile(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	cat, _ := run(t, b)
	c := newClient(t, b)
	s := newSample("a", "1.0.0", "s", 3000)
	c.upload(s)
	i := c.activate(s.Id, "")
	if err := cat.cfg.Conn.Purge(t.Context(), topology.Blobs, topology.BlobSubjects(s.Blob.Digest)); err != nil {
		t.Fatal(err)
	}
	err := cat.recheckContent(t.Context(), bus.Caller{Actor: "ada"}, i)
	if fault.RefusalOf(err).GetCode() != "INCOMPLETE" || c.get(s.Id).State != imagev1.State_STATE_DISABLED {
		t.Fatal(err)
	}
}

func TestDeletionDisablesAnImageThatIsActivatedMeanwhile(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	cat, _ := run(t, b)
	c := newClient(t, b)
	s := newSample("a", "1.0.0", "s", 3000)
	c.upload(s)
	c.activate(s.Id, "")
	if err := cat.disableUndermined(t.Context(), bus.Caller{Actor: "ada"}, s.Blob.Digest); err != nil {
		t.Fatal(err)
	}
	if i := c.get(s.Id); i.State != imagev1.State_STATE_DISABLED || i.Reason != lostContent {
		t.Fatal(i.State, i.Reason)
	}
}

func TestContentWithoutAnImageIsSweptAtTheStart(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	_, stop := run(t, b)
	c := newClient(t, b)
	kept, lost := newSample("a", "1.0.0", "kept", 3000), newSample("a", "1.0.1", "lost", 3000)
	c.upload(kept)
	stop()
	for n := range lost.Blob.ChunkDigests {
		chunk := bus.Durable{Subject: topology.BlobSubject(lost.Blob.Digest, n), Data: lost.chunk(n), Once: true}
		if _, err := c.conn.PublishDurable(t.Context(), chunk); err != nil {
			t.Fatal(err)
		}
	}
	run(t, b)
	for s, want := range map[string]int{string(kept.Blob.Digest): 3, string(lost.Blob.Digest): 0} {
		have, err := c.conn.Subjects(t.Context(), topology.Blobs, topology.BlobSubjects([]byte(s)))
		if len(have) != want || err != nil {
			t.Fatalf("%d chunks are left, want %d (%v)", len(have), want, err)
		}
	}
}

func TestAChunkThatIsStoredAfterItsImageWasDeletedIsPurged(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	cat, _ := run(t, b)
	s := newSample("a", "1.0.0", "s", 100)
	chunk := bus.Durable{Subject: topology.BlobSubject(s.Blob.Digest, 0), Data: s.chunk(0), Once: true}
	if _, err := cat.cfg.Conn.PublishDurable(t.Context(), chunk); err != nil {
		t.Fatal(err)
	}
	err := cat.content.checkWanted(t.Context(), &imagev1.Image{Manifest: s.Manifest})
	if !fault.Is(err, fault.NotFound) {
		t.Fatal(err)
	}
	left, err := cat.cfg.Conn.Subjects(t.Context(), topology.Blobs, topology.BlobSubjects(s.Blob.Digest))
	if len(left) != 0 || err != nil {
		t.Fatal(left, err)
	}
}
