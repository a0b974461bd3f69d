package catalog

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

func TestABuiltImageIsUploadedActivatedAndReadBack(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	run(t, b)
	c := newClient(t, b)
	f := built(t, 2*topology.ChunkSize+100)
	m := f.Manifest()
	if i := c.create(m); i.State != imagev1.State_STATE_UNACTIVATED {
		t.Fatalf("created in state %v", i.State)
	}
	for _, n := range c.missing(m) {
		data, err := f.Chunk(int(n))
		if err != nil {
			t.Fatal(err)
		}
		c.put(m, int(n), data)
	}
	i := c.activate("cn-agent@1.2.3", "")
	if i.State != imagev1.State_STATE_ACTIVE || !i.Filled || !cmp.Equal(i.Channels, []string{"release"}) {
		t.Fatalf("activated: %v, filled %v, in %v", i.State, i.Filled, i.Channels)
	}
	for n := range f.Chunks() {
		want, _ := f.Chunk(n)
		have := must[*catalogv1.GetChunkResponse](c, "GetChunk",
			&catalogv1.GetChunkRequest{ImageId: m.Id, Chunk: uint32(n)})
		if !bytes.Equal(have.Content, want) {
			t.Fatalf("chunk %d differs", n)
		}
	}
	want := []string{"channel.created", "image.created", "image.filled", "image.activated", "channel.image-added"}
	if d := cmp.Diff(want, facts(t, c.conn)); d != "" {
		t.Fatal(d)
	}
}

func TestAnUploadIsContinuedByAnotherClientWhereItStopped(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	_, stop := run(t, b)
	s := newSample("a", "1.0.0", "s", 5000)
	first := newClient(t, b)
	first.create(s.Manifest)
	first.put(s.Manifest, 1, s.chunk(1))
	first.put(s.Manifest, 3, s.chunk(3))
	first.conn.Close()
	stop() // and the catalog goes too
	run(t, b)

	second := newClient(t, b)
	second.create(s.Manifest)
	missing := second.missing(s.Manifest)
	if d := cmp.Diff([]uint32{0, 2, 4}, missing); d != "" {
		t.Fatal(d)
	}
	for _, n := range missing {
		second.put(s.Manifest, int(n), s.chunk(int(n)))
	}
	second.activate(s.Id, "")
}

func TestAChunkMayBeSentTwice(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	run(t, b)
	c := newClient(t, b)
	s := newSample("a", "1.0.0", "s", 3000)
	c.upload(s)
	c.upload(s)
	c.activate(s.Id, "")
}

func TestAChunkIsRefused(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	run(t, b)
	c := newClient(t, b)
	s := newSample("a", "1.0.0", "s", 2500)
	c.create(s.Manifest)
	for name, q := range map[string]struct {
		chunk   int
		content []byte
		kind    fault.Kind
		code    string
	}{
		"that is cut short":            {0, s.chunk(0)[:1000], fault.Invalid, "WRONG_DIGEST"},
		"that is too long":             {2, s.chunk(0), fault.Invalid, "WRONG_DIGEST"},
		"that is another one":          {0, s.chunk(1), fault.Invalid, "WRONG_DIGEST"},
		"that is empty":                {0, nil, fault.Invalid, "WRONG_DIGEST"},
		"that the manifest lacks":      {3, s.chunk(0), fault.Invalid, "NO_SUCH_CHUNK"},
		"that is far behind the image": {1 << 31, s.chunk(0), fault.Invalid, "NO_SUCH_CHUNK"},
	} {
		t.Run(name, func(t *testing.T) {
			refused[*catalogv1.PutChunkResponse](c, "PutChunk",
				&catalogv1.PutChunkRequest{ImageId: s.Id, Chunk: uint32(q.chunk), Content: q.content}, q.kind, q.code)
		})
	}
	if d := cmp.Diff([]uint32{0, 1, 2}, c.missing(s.Manifest)); d != "" {
		t.Fatalf("stored all the same: %s", d)
	}
}

func TestActivationBeforeAllChunksSaysHowManyAreMissing(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	run(t, b)
	c := newClient(t, b)
	s := newSample("a", "1.0.0", "s", 5000)
	c.create(s.Manifest)
	c.put(s.Manifest, 0, s.chunk(0))
	c.put(s.Manifest, 4, s.chunk(4))
	r := refused[*catalogv1.ActivateImageResponse](c, "ActivateImage", &catalogv1.ActivateImageRequest{Image: s.Id},
		fault.Conflict, "INCOMPLETE")
	if want := "image " + s.Id + " (a 1.0.0) lacks 3 of 5 chunks; send them, then activate it"; r.Message != want {
		t.Fatalf("said %q, want %q", r.Message, want)
	}
	if i := c.get(s.Id); i.State != imagev1.State_STATE_UNACTIVATED || i.Filled {
		t.Fatalf("state %v, filled %v", i.State, i.Filled)
	}
}

func TestADamagedChunkIsPurgedAtActivationAndCanBeSentAgain(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	run(t, b)
	c := newClient(t, b)
	s := newSample("a", "1.0.0", "s", 5000)
	c.upload(s)
	damage(t, c.conn, s.Manifest, 2)
	refused[*catalogv1.GetChunkResponse](c, "GetChunk", &catalogv1.GetChunkRequest{ImageId: s.Id, Chunk: 2},
		fault.Internal, "WRONG_DIGEST")
	refused[*catalogv1.ActivateImageResponse](c, "ActivateImage", &catalogv1.ActivateImageRequest{Image: s.Id},
		fault.Conflict, "WRONG_DIGEST")
	if n := len(c.missing(s.Manifest)); n != 5 {
		t.Fatalf("%d chunks are missing, want all 5", n)
	}
	c.upload(s)
	c.activate(s.Id, "")
}

func TestAManifestWhoseDigestsContradictEachOtherIsNotActivated(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	run(t, b)
	c := newClient(t, b)
	s := newSample("a", "1.0.0", "s", 3000)
	s.Blob.Digest[0] ^= 1
	s.Id = imageID(s)
	c.upload(s)
	refused[*catalogv1.ActivateImageResponse](c, "ActivateImage", &catalogv1.ActivateImageRequest{Image: s.Id},
		fault.Conflict, "WRONG_DIGEST")
}

func TestAChunkThatIsNotStoredYetIsNotFound(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	run(t, b)
	c := newClient(t, b)
	s := newSample("a", "1.0.0", "s", 3000)
	c.create(s.Manifest)
	refused[*catalogv1.GetChunkResponse](c, "GetChunk", &catalogv1.GetChunkRequest{ImageId: s.Id}, fault.NotFound,
		"INCOMPLETE")
	refused[*catalogv1.GetChunkResponse](c, "GetChunk", &catalogv1.GetChunkRequest{ImageId: s.Id, Chunk: 3},
		fault.NotFound, "NO_SUCH_CHUNK")
}

func TestImagesWithTheSameContentShareTheirChunks(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	run(t, b)
	c := newClient(t, b)
	one, two := newSample("a", "1.0.0", "s", 3000), newSample("a", "1.0.1", "s", 3000)
	c.upload(one)
	c.create(two.Manifest)
	if n := len(c.missing(two.Manifest)); n != 0 {
		t.Fatalf("%d chunks are missing", n)
	}
	c.activate(two.Id, "")
	must[*catalogv1.DeleteImageResponse](c, "DeleteImage", &catalogv1.DeleteImageRequest{Image: one.Id})
	if n := len(c.missing(two.Manifest)); n != 0 {
		t.Fatalf("deleting the other took %d chunks away", n)
	}
}

func TestAnImageIsFoundByTheDigestOfItsContent(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	run(t, b)
	c := newClient(t, b)
	s, same := newSample("a", "1.0.0", "s", 3000), newSample("b", "1.0.0", "s", 3000)
	c.create(s.Manifest)
	c.create(same.Manifest)
	q := &catalogv1.GetImageRequest{Digest: s.Blob.Digest}
	found := must[*catalogv1.GetImageResponse](c, "GetImage", q).Image.Manifest
	if found.Id != min(s.Id, same.Id) || len(found.Blob.ChunkDigests) == 0 {
		t.Errorf("found %v, want the first of %s and %s with the digests of its chunks", found, s.Id, same.Id)
	}
	for _, q := range []*catalogv1.GetImageRequest{{Image: s.Id, Digest: s.Blob.Digest}, {Digest: []byte{1}}} {
		kind, code := fault.NotFound, "NO_MATCH"
		if q.Image != "" {
			kind, code = fault.Invalid, "MALFORMED"
		}
		refused[*catalogv1.GetImageResponse](c, "GetImage", q, kind, code)
	}
}
