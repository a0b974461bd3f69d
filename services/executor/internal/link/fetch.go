package link

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sync/errgroup"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// Fetch fetches every chunk of a blob into the cache. It waits while the bus is unreachable; an error
// other than the context's is final.
func (l *Link) Fetch(ctx context.Context, b *imagev1.Blob, progress func(done uint64)) error {
	if err := os.MkdirAll(l.cfg.Root.CacheOf(b.GetDigest()), 0o700); err != nil {
		return fmt.Errorf("make the cache: %w", err)
	}
	if err := layout.SweepTemporary(l.cfg.Root.CacheOf(b.GetDigest())); err != nil {
		return fmt.Errorf("sweep the cache: %w", err)
	}
	chunks, err := l.openChunks(b)
	if err != nil {
		return err
	}
	defer chunks.close()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(topology.ChunkWindow)
	var mu sync.Mutex
	var done uint64
	for n := range b.GetChunkDigests() {
		g.Go(func() error {
			size, err := l.fetchChunk(ctx, chunks, n)
			if err != nil {
				return fmt.Errorf("fetch chunk %d of %x: %w", n, b.GetDigest(), err)
			}
			mu.Lock()
			defer mu.Unlock()
			done += uint64(size)
			progress(done)
			return nil
		})
	}
	return g.Wait()
}

// fetchChunk returns the size of the chunk once it is in the cache.
func (l *Link) fetchChunk(ctx context.Context, c *chunks, n int) (int, error) {
	path := l.cfg.Root.Chunk(c.blob.GetDigest(), n)
	size, err := cached(path, c.blob.GetChunkDigests()[n])
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return size, err
	}
	data, err := c.read(ctx, n)
	if err != nil {
		return 0, err
	}
	return len(data), layout.WriteVolatile(path, data, 0o600) // a chunk that a power cut damages is fetched again
}

// cached reports whether the cache has the right chunk. A wrong one counts as missing.
func cached(path string, want []byte) (int, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	if !matches(data, want) {
		return 0, fs.ErrNotExist
	}
	return len(data), nil
}

func matches(data, want []byte) bool {
	sum := sha256.Sum256(data)
	return bytes.Equal(sum[:], want)
}
