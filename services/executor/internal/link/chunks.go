package link

import (
	"context"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
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
		return fault.Refusef(fault.Invalid, code.ChunkMismatch, "%s is not what the manifest says", what)
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
			return nil, fault.Refusef(fault.Internal, code.ChunkMismatch, "the answer has another digest")
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
