package link

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

const (
	chunkWithin  = 15 * time.Second // for one request
	chunkTries   = 4                // attempts for a chunk that is refused, missing or wrong
	retryLongest = 5 * time.Second
)

// chunks reads the chunks of one blob from the image-catalog. It is safe for concurrent use.
type chunks struct {
	link  *Link
	blob  *imagev1.Blob
	close func()

	mu      sync.Mutex
	waiting map[int]chan bus.Message // by the chunk's number
}

// openChunks subscribes to the answers about a blob. The caller must close the chunks.
func (l *Link) openChunks(b *imagev1.Blob) (*chunks, error) {
	c := &chunks{link: l, blob: b, waiting: map[int]chan bus.Message{}}
	stop, err := l.cfg.Conn.Subscribe(topology.ChunkAnswersOf(l.cfg.Address, b.GetDigest()), c.receive)
	c.close = stop
	return c, err
}

// receive passes an answer to the request that waits for it.
func (c *chunks) receive(m bus.Message) {
	a, err := topology.ParseChunkAnswerSubject(m.Subject)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case c.waiting[a.Number] <- m:
	default: // it is no longer awaited
	}
}

// read requests a chunk until the right one arrives, ctx is done, or none can arrive.
func (c *chunks) read(ctx context.Context, n int) ([]byte, error) {
	refused := 0
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, retryLongest) {
		data, err := c.request(ctx, n)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err == nil {
			return data, nil
		}
		if final := c.refusal(n, err); final != nil {
			if refused++; refused >= chunkTries {
				return nil, final
			}
		}
		after := time.Duration(fault.RefusalOf(err).GetRetryAfterMs()) * time.Millisecond
		if err := wakeup.Pause(ctx, jitter(max(wait, after*4/3))); err != nil {
			return nil, err
		}
	}
}

// refusal returns the refusal of the change for an answer that would be the same again, or nil: the catalog or the bus
// may be unreachable for any time.
func (c *chunks) refusal(n int, err error) error {
	what := fmt.Sprintf("chunk %d of content %x", n, c.blob.GetDigest())
	switch answer := fault.RefusalOf(err); {
	case answer == nil || fault.Is(err, fault.Unavailable):
		return nil
	case fault.Is(err, fault.Denied):
		c.link.ReadAgain() // the document may be another one by now
		return fault.Refuse(fault.Invalid, answer)
	case fault.Is(err, fault.NotFound):
		return fault.Refusef(fault.Invalid, code.ChunkMissing, "the image-catalog has no %s: %s", what,
			answer.GetMessage())
	default:
		return fault.Refusef(fault.Invalid, code.WrongDigest, "%s is not what the manifest says", what)
	}
}

// request requests a chunk once. Its error carries a refusal unless no answer came.
func (c *chunks) request(ctx context.Context, n int) ([]byte, error) {
	if err := c.link.cfg.Conn.WaitConnected(ctx); err != nil {
		return nil, err
	}
	once, done := c.link.cfg.Conn.UntilDisconnect(ctx)
	defer done()
	answer := make(chan bus.Message, 1)
	c.wait(n, answer)
	defer c.wait(n, nil)
	err := c.link.cfg.Conn.Publish(topology.ChunkRequestSubject(topology.ChunkAddress{
		ServerAddress: c.link.cfg.Address, Digest: hex.EncodeToString(c.blob.GetDigest()), Number: n,
	}), nil)
	if err != nil {
		return nil, err
	}
	timeout := time.NewTimer(chunkWithin)
	defer timeout.Stop()
	select {
	case m := <-answer:
		if err := bus.RefusedIn(m); err != nil {
			return nil, err
		}
		if !matches(m.Data, c.blob.GetChunkDigests()[n]) {
			return nil, fault.Refusef(fault.Internal, code.WrongDigest, "the answer has another digest")
		}
		return m.Data, nil
	case <-timeout.C:
		return nil, fault.New(fault.Unavailable, "the image-catalog did not answer within %v", chunkWithin)
	case <-once.Done():
		return nil, fault.New(fault.Unavailable, "disconnected from the bus before the image-catalog answered")
	}
}

// wait sets the channel that receives the answer about a chunk; nil means that nothing waits.
func (c *chunks) wait(n int, answer chan bus.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if answer == nil {
		delete(c.waiting, n)
		return
	}
	c.waiting[n] = answer
}

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
