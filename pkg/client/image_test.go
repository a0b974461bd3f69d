package client_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/image"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// catalog keeps chunks in place of the image-catalog.
type catalog struct {
	mu       sync.Mutex
	manifest *imagev1.Manifest
	chunks   map[uint32][]byte
	puts     int
	fail     error // of the next chunks
	checks   int   // how often an activation is still checking
}

func startCatalog(t testing.TB, b *bustest.Bus) *catalog {
	t.Helper()
	c := &catalog{chunks: map[uint32][]byte{}}
	s := serve(t, b, ledger.Catalog)
	answer(t, s, "CreateImage", func(q *catalogv1.CreateImageRequest) (*catalogv1.CreateImageResponse, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.manifest = q.GetManifest()
		return &catalogv1.CreateImageResponse{}, nil
	})
	answer(t, s, "MissingChunks", func(*catalogv1.MissingChunksRequest) (*catalogv1.MissingChunksResponse, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		r := &catalogv1.MissingChunksResponse{}
		for n := range uint32(len(c.manifest.GetBlob().GetChunkDigests())) {
			if c.chunks[n] == nil {
				r.Chunks = append(r.Chunks, n)
			}
		}
		return r, nil
	})
	answer(t, s, "PutChunk", func(q *catalogv1.PutChunkRequest) (*catalogv1.PutChunkResponse, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.puts++
		if c.fail != nil {
			return nil, c.fail
		}
		c.chunks[q.GetChunk()] = q.GetContent()
		return &catalogv1.PutChunkResponse{}, nil
	})
	answer(t, s, "GetChunk", func(q *catalogv1.GetChunkRequest) (*catalogv1.GetChunkResponse, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return &catalogv1.GetChunkResponse{Content: c.chunks[q.GetChunk()]}, nil
	})
	answer(t, s, "GetImage", func(*catalogv1.GetImageRequest) (*catalogv1.GetImageResponse, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return &catalogv1.GetImageResponse{Image: &imagev1.Image{Manifest: c.manifest}}, nil
	})
	answer(t, s, "ActivateImage", func(*catalogv1.ActivateImageRequest) (*catalogv1.ActivateImageResponse, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.checks--; c.checks >= 0 {
			return nil, fault.Refuse(fault.Unavailable, &apiv1.Refusal{Code: "STILL_CHECKING"})
		}
		return &catalogv1.ActivateImageResponse{Image: &imagev1.Image{State: imagev1.State_STATE_ACTIVE}}, nil
	})
	return c
}

// set makes the next chunks fail, or not, and resets the count.
func (c *catalog) set(fail error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail, c.puts = fail, 0
}

// imageFile builds an image of several chunks.
func imageFile(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	content := make([]byte, 2<<20) // that does not compress to one chunk
	_, _ = rand.NewChaCha8([32]byte{}).Read(content)
	recipe := "agent: beacon\nversion: 1.0.0\nkind: files\n"
	err := errors.Join(os.WriteFile(filepath.Join(dir, image.RecipeName), []byte(recipe), 0o644),
		os.WriteFile(filepath.Join(dir, "data"), content, 0o644))
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "beacon.gimg")
	if _, err := image.Build(t.Context(), image.BuildOptions{Dir: dir, Out: out, At: noon}); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAnImportSendsWhatTheCatalogLacksAndContinuesWhereItStopped(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	store, c, path := startCatalog(t, b), connect(t, b), imageFile(t)
	store.set(fault.New(fault.Invalid, "stopped"))
	if _, err := c.Import(within(t), path, nil); !fault.Is(err, fault.Invalid) {
		t.Fatalf("%v, want the import to stop", err)
	}
	store.set(nil)
	var reports []client.Transfer
	if _, err := c.Import(within(t), path, func(r client.Transfer) { reports = append(reports, r) }); err != nil {
		t.Fatal(err)
	}
	all := len(store.manifest.GetBlob().GetChunkDigests())
	last := reports[len(reports)-1]
	if all < 2 {
		t.Fatalf("the image has %d chunk, too few for this test", all)
	}
	if len(store.chunks) != all || last.Chunks != all || last.Present+last.Done != all {
		t.Errorf("%d chunks of %d, last report %+v", len(store.chunks), all, last)
	}
	delete(store.chunks, 0)
	reports = nil
	store.set(nil)
	if _, err := c.Import(within(t), path, func(r client.Transfer) { reports = append(reports, r) }); err != nil {
		t.Fatal(err)
	}
	want := []client.Transfer{{Chunks: all, Present: all - 1}, {Chunks: all, Present: all - 1, Done: 1}}
	if store.puts != 1 || !slices.Equal(reports, want) {
		t.Errorf("%d puts with reports %+v, want one chunk and %+v", store.puts, reports, want)
	}
}

func TestAnExportedImageIsTheImportedOne(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	startCatalog(t, b)
	c, path := connect(t, b), imageFile(t)
	i, err := c.Import(within(t), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	again := filepath.Join(t.TempDir(), "again.gimg")
	if err := c.Export(within(t), i.GetManifest(), again, nil); err != nil {
		t.Fatal(err)
	}
	f, err := image.Open(again)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if err := f.Verify(within(t)); err != nil || f.Manifest().GetId() != i.GetManifest().GetId() {
		t.Errorf("image %s (%v), want %s", f.Manifest().GetId(), err, i.GetManifest().GetId())
	}
}

func TestActivateAsksAgainWhileTheCatalogChecksTheContent(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	startCatalog(t, b).checks = 1
	began := time.Now()
	i, err := connect(t, b).Activate(within(t), "beacon@1.0.0", "")
	if err != nil || i.GetState() != imagev1.State_STATE_ACTIVE {
		t.Errorf("%v (%v) after %v, want an active image", i, err, time.Since(began))
	}
}
