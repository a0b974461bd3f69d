package catalog

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/pace"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/image-catalog/internal/lru"
)

// What downloads take: cachedBytes, downloadWorkers chunks that are being read, what the documents name (documents.go),
// and requests of some hundred bytes each.
const (
	cachedBytes     = 64 << 20
	downloadWorkers = 8
	// refusalBytes and leastBytes are what a refusal and a small chunk are charged as: their number is paced too.
	refusalBytes, leastBytes = 128 << 10, 16 << 10
	// busyAfter is when a server that requested too much at a time should try again.
	busyAfter = time.Second
	// busyAnswers is how many such requests of one server are answered in a second; the others are counted.
	busyAnswers = 16
)

// downloadLimits is what servers may download. One server alone has its pace; the others' share is not touched by it.
var downloadLimits = limits{servers: 10_000, window: topology.ChunkWindow, pace: 128 << 20, burst: 256 << 20}

// downloads answers the requests of servers for chunks of the images that their documents name.
type downloads struct {
	conn      *bus.Conn
	log       zerolog.Logger
	content   *content
	documents *documents
	queue     *turns[topology.ChunkAddress]
	cache     *lru.Cache[chunkKey, []byte]
	reading   singleflight.Group
	busy      *pace.Pace    // answers that say so, by server
	serving   chan struct{} // closed once requests are taken: one before that gets no answer

	malformedLog, busyLog, deniedLog *logs.Pacer
	answered, refused, dropped       atomic.Uint64
}

// chunkKey names a chunk in the cache.
type chunkKey struct {
	digest string
	number int
}

func newDownloads(conn *bus.Conn, c *content, log zerolog.Logger) *downloads {
	return &downloads{
		conn: conn, log: log, content: c, documents: newDocuments(conn),
		queue: newTurns[topology.ChunkAddress](downloadLimits), cache: lru.New[chunkKey, []byte](cachedBytes),
		busy: pace.New(busyAnswers, time.Second), serving: make(chan struct{}),
		malformedLog: logs.NewPacer(), busyLog: logs.NewPacer(), deniedLog: logs.NewPacer(),
	}
}

// run answers requests until ctx is done, over a connection of its own: one server that reads slowly must not delay
// what the catalog answers to others. Replicas share the requests; those that came here are answered before it returns.
func (d *downloads) run(ctx context.Context) error {
	conn, err := d.conn.Another()
	if err != nil {
		return fmt.Errorf("connect for downloads: %w", err)
	}
	defer conn.Close()
	d.conn, d.documents.conn = conn, conn
	stop, err := d.conn.SubscribeShared(topology.ChunkRequestSubjects, ledger.Catalog, d.receive)
	if err != nil {
		return fmt.Errorf("answer requests for chunks: %w", err)
	}
	defer d.leave(stop)
	close(d.serving)
	g, ctx := errgroup.WithContext(ctx)
	for range downloadWorkers {
		g.Go(func() error {
			for {
				next, ok := d.queue.take(ctx)
				if !ok {
					return nil
				}
				d.serve(ctx, next)
			}
		})
	}
	return g.Wait()
}

// leave takes no more requests, and refuses those that wait: their servers request again, without waiting for an answer
// that never comes.
func (d *downloads) leave(stop func()) {
	stop()
	for _, a := range d.queue.rest() {
		d.refuse(a, errLeaving)
	}
}

// receive queues a request, and does not block. A request that cannot be read has no answer: a wildcard in it would be
// one in the subject of the answer.
func (d *downloads) receive(m bus.Message) {
	a, err := topology.ParseChunkRequestSubject(m.Subject)
	if err != nil {
		d.dropped.Add(1)
		d.malformedLog.Warn(d.log, a.Server).Err(err).Str(logs.Server, a.Server).Msg("request for a chunk is malformed")
		return
	}
	if d.queue.add(a.Server, a) {
		return
	}
	d.busyLog.Warn(d.log, a.Server).Str(logs.Server, a.Server).Msg("server requests too many chunks at a time")
	if _, ok := d.busy.Take(a.Server); !ok {
		d.dropped.Add(1)
		return
	}
	d.refuse(a, deny(fault.Unavailable, code.Busy, "server %s has %d requests for chunks waiting", a.Server,
		downloadLimits.window).After(busyAfter))
}

// serve answers one request. A lost answer is requested again.
func (d *downloads) serve(ctx context.Context, t turn[topology.ChunkAddress]) {
	a := t.request
	data, err := d.chunk(ctx, a)
	if err != nil {
		t.answered(refusalBytes)
		if ctx.Err() != nil {
			err = errLeaving
		}
		d.refuse(a, err)
		return
	}
	t.answered(max(len(data), leastBytes))
	d.answered.Add(uint64(len(data)))
	_ = d.conn.Publish(topology.ChunkAnswerSubject(a), data)
}

func (d *downloads) refuse(a topology.ChunkAddress, err error) {
	d.refused.Add(1)
	if fault.RefusalOf(err) == nil {
		err = deny(fault.Unavailable, code.Unavailable, "%v", err)
	}
	_ = d.conn.PublishRefusal(topology.ChunkAnswerSubject(a), err)
}

// errLeaving answers requests that the catalog has no time for when it stops.
var errLeaving = deny(fault.Unavailable, code.Busy, "this image-catalog stops").After(busyAfter)

// deny is refuse for requests that do not come through bus.Service.
func deny(kind fault.Kind, code, format string, args ...any) *fault.Error {
	return refuse(kind, code, format, args...).From(ledger.Catalog)
}

// chunk returns a chunk to which a server is entitled.
func (d *downloads) chunk(ctx context.Context, a topology.ChunkAddress) ([]byte, error) {
	named, err := d.documents.name(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("read the document of server %s: %w", a.Server, err)
	}
	if !named {
		d.deniedLog.Warn(d.log, a.Server).Str(logs.Server, a.Server).Str("digest", a.Digest).
			Msg("server requests an image that its document does not name")
		return nil, deny(fault.Denied, code.NotYourImage,
			"the document of server %s names no image with the content %s", a.Server, a.Digest).
			Try("garrison explain " + a.Server).After(time.Second / documentReads)
	}
	b, err := d.blob(a)
	if err != nil {
		return nil, err
	}
	key := chunkKey{a.Digest, a.Number}
	if data, ok := d.cache.Get(key); ok {
		return data, nil
	}
	data, err, _ := d.reading.Do(a.Digest+"."+strconv.Itoa(a.Number), func() (any, error) {
		data, err := d.read(ctx, b, a.Number)
		if err == nil {
			d.cache.Put(key, data, len(data))
		}
		return data, err
	})
	if err != nil {
		return nil, err
	}
	return data.([]byte), nil
}

// blob returns the description of the content that an image of the catalog has.
func (d *downloads) blob(a topology.ChunkAddress) (*imagev1.Blob, error) {
	digest, _ := hex.DecodeString(a.Digest) // as it was parsed
	b := d.content.blob(digest)
	if b == nil {
		return nil, deny(fault.NotFound, code.Incomplete, "no image has the content %s", a.Digest)
	}
	if a.Number >= len(b.ChunkDigests) {
		return nil, deny(fault.NotFound, code.NoSuchChunk, "content %s has no chunk %d (it has %d)", a.Digest,
			a.Number, len(b.ChunkDigests))
	}
	return b, nil
}

// read reads a chunk from the stream.
func (d *downloads) read(ctx context.Context, b *imagev1.Blob, n int) ([]byte, error) {
	data, err := storedChunk(ctx, d.conn, b, n)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil, deny(fault.NotFound, code.Incomplete, "chunk %d of content %x is not stored", n, b.Digest)
	case fault.RefusalOf(err) != nil:
		d.log.Error().Err(err).Hex("digest", b.Digest).Int("chunk", n).Msg("stored chunk is corrupt")
		return nil, deny(fault.Internal, code.WrongDigest,
			"the stored chunk %d of content %x has another digest than its manifest says", n, b.Digest)
	}
	return data, err
}

// show returns what a debug socket shows.
func (d *downloads) show() any {
	return map[string]any{
		"waiting": d.queue.count(), "cached_bytes": d.cache.Bytes(), "answered_bytes": d.answered.Load(),
		"refused": d.refused.Load(), "dropped": d.dropped.Load(),
	}
}
