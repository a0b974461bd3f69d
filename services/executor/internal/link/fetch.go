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
	"time"

	"golang.org/x/sync/errgroup"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// Window is how many chunks of a blob are under way at most.
const Window = 16

const (
	chunkWithin   = 15 * time.Second // for one request
	missingTries  = 3                // a chunk that is not on the bus is asked for so often
	mismatchTries = 3                // and one whose content is wrong
	retryLongest  = 5 * time.Second
)

// Fetch brings every chunk of a blob into the cache. It waits out a bus that is away; an
// error other than the context's is final.
func (l *Link) Fetch(ctx context.Context, b *imagev1.Blob, progress func(done uint64)) error {
	if err := os.MkdirAll(l.cfg.Root.CacheOf(b.GetDigest()), 0o700); err != nil {
		return fmt.Errorf("make the cache: %w", err)
	}
	if err := layout.SweepTemporary(l.cfg.Root.CacheOf(b.GetDigest())); err != nil {
		return fmt.Errorf("sweep the cache: %w", err)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(Window)
	var mu sync.Mutex
	var done uint64
	for n := range b.GetChunkDigests() {
		g.Go(func() error {
			size, err := l.fetchChunk(ctx, b, n)
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

// fetchChunk gives the size of the chunk once it is in the cache.
func (l *Link) fetchChunk(ctx context.Context, b *imagev1.Blob, n int) (int, error) {
	path, want := l.cfg.Root.Chunk(b.GetDigest(), n), b.GetChunkDigests()[n]
	size, err := cached(path, want)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return size, err
	}
	data, err := l.askForChunk(ctx, topology.BlobSubject(b.GetDigest(), n), want)
	if err != nil {
		return 0, err
	}
	return len(data), layout.WriteVolatile(path, data, 0o600) // what a power cut damages is fetched again
}

// cached looks whether the right chunk is there already. A wrong one counts as absent.
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

// askForChunk asks until the right chunk comes, ctx is done, or it is known that none will.
func (l *Link) askForChunk(ctx context.Context, subject string, want []byte) ([]byte, error) {
	var missing, wrong int
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, retryLongest) {
		once, cancel := context.WithTimeout(ctx, chunkWithin)
		m, err := l.cfg.Conn.DirectGet(once, topology.Blobs, subject)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err == nil && matches(m.Data, want):
			return m.Data, nil
		case err == nil:
			wrong++
		case fault.Is(err, fault.NotFound):
			missing++
		}
		if missing >= missingTries {
			return nil, refuse("CHUNK_MISSING", "the bus has no %s", subject)
		}
		if wrong >= mismatchTries {
			return nil, refuse("CHUNK_MISMATCH", "%s is not what the manifest says", subject)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(jitter(wait)):
		}
	}
}

func refuse(code, format string, args ...any) error {
	return fault.Refuse(fault.Invalid, &apiv1.Refusal{Code: code, Message: fmt.Sprintf(format, args...)})
}
