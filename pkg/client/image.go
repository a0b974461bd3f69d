package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/image"
)

const (
	// chunksAtOnce is how many chunks are under way to the catalog.
	chunksAtOnce = 4
	// chunkTries is how often one chunk is sent before the import ends; it can be continued later.
	chunkTries = 4
	// chunkRetry is the pause after the first failed try; it grows with each.
	chunkRetry = 500 * time.Millisecond
	// activateRetry is the pause before an activation is asked again, while the catalog checks the content.
	activateRetry = time.Second
)

// Transfer is how far an import or export is, in chunks.
type Transfer struct {
	Chunks  int // of the image
	Present int // that were there before
	Done    int // that were transferred since
}

// Import sends an image file to the catalog: every chunk that it lacks. It checks the whole file first. report, if not
// nil, is called before the first chunk and after each, one call at a time.
func (c *Client) Import(ctx context.Context, path string, report func(Transfer)) (*imagev1.Image, error) {
	f, err := image.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if err := f.Verify(ctx); err != nil {
		return nil, err
	}
	m := f.Manifest()
	_, err = Call[*catalogv1.CreateImageResponse](ctx, c, &catalogv1.CreateImageRequest{Manifest: m})
	if err != nil && !errors.Is(err, ErrUnchanged) {
		return nil, err
	}
	missing, err := Call[*catalogv1.MissingChunksResponse](ctx, c, &catalogv1.MissingChunksRequest{ImageId: m.GetId()})
	if err != nil {
		return nil, err
	}
	if err := c.sendChunks(ctx, f, missing.GetChunks(), report); err != nil {
		return nil, fmt.Errorf("import %s (run it again to continue): %w", path, err)
	}
	return c.Image(ctx, m.GetId())
}

func (c *Client) sendChunks(ctx context.Context, f *image.File, chunks []uint32, report func(Transfer)) error {
	state := Transfer{Chunks: f.Chunks(), Present: f.Chunks() - len(chunks)}
	if report == nil {
		report = func(Transfer) {}
	}
	report(state)
	var mu sync.Mutex // of state, and of report
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(chunksAtOnce)
	for _, n := range chunks {
		g.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			data, err := f.Chunk(int(n))
			if err != nil {
				return err
			}
			q := &catalogv1.PutChunkRequest{ImageId: f.Manifest().GetId(), Chunk: n, Content: data}
			if err := c.sendChunk(ctx, q); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			state.Done++
			report(state)
			return nil
		})
	}
	return g.Wait()
}

// sendChunk retries while the catalog is unavailable. The same chunk twice changes nothing.
func (c *Client) sendChunk(ctx context.Context, q *catalogv1.PutChunkRequest) error {
	for try := 1; ; try++ {
		_, err := Call[*catalogv1.PutChunkResponse](ctx, c, q)
		if !fault.Is(err, fault.Unavailable) || try == chunkTries {
			return err
		}
		if err := pause(ctx, time.Duration(try)*chunkRetry); err != nil {
			return err
		}
	}
}

// Export writes an image of the catalog into a file. Every chunk and the whole are checked; on an error nothing new is
// at path. report, if not nil, is called after each chunk.
func (c *Client) Export(ctx context.Context, m *imagev1.Manifest, path string, report func(Transfer)) error {
	state := Transfer{Chunks: len(m.GetBlob().GetChunkDigests())}
	return image.Write(ctx, path, m, func(ctx context.Context, n int) ([]byte, error) {
		q := &catalogv1.GetChunkRequest{ImageId: m.GetId(), Chunk: uint32(n)}
		r, err := Call[*catalogv1.GetChunkResponse](ctx, c, q)
		if err == nil && report != nil {
			state.Done++
			report(state)
		}
		return r.GetContent(), err
	})
}

// Activate lets an image be installed, as the newest of a channel; "" means those that it is in, and the default one of
// an image that is in none. The catalog reads the
// whole content first: Activate asks again until that is done or ctx ends.
func (c *Client) Activate(ctx context.Context, name, channel string) (*imagev1.Image, error) {
	q := &catalogv1.ActivateImageRequest{Image: name, Channel: channel}
	for {
		r, err := Call[*catalogv1.ActivateImageResponse](ctx, c, q)
		if fault.RefusalOf(err).GetCode() != code.StillChecking {
			return r.GetImage(), err
		}
		if err := pause(ctx, activateRetry); err != nil {
			return nil, fmt.Errorf("activate image %s: %w", name, err)
		}
	}
}
