package catalog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

const (
	// readAhead is how many chunks are requested before the first one is needed.
	readAhead = 8
	// maxChecks is how many blobs are read at once; each takes readAhead chunks of memory.
	maxChecks = 2
	// checkWithin bounds one check: 4 GiB at 10 MB/s take 7 minutes.
	checkWithin = 15 * time.Minute
	// replicaPause is the pause before a chunk is read again that a replica lacks.
	replicaPause = 20 * time.Millisecond
	// keepResult is how long a result is kept for a repeated request.
	keepResult = time.Minute
)

// errCorrupt reports that the stored content does not have the digest of its manifest.
var errCorrupt = errors.New("the stored content does not have the digest of its manifest")

// checks reads blobs back and compares digests. A large blob takes longer than a request may, so a
// check outlives the request that started it; a repeated request joins it or receives its result.
type checks struct {
	conn  *bus.Conn
	now   func() time.Time
	slots chan struct{}

	mu      sync.Mutex
	life    context.Context // nil until run
	running map[string]*check
	all     sync.WaitGroup
}

type check struct {
	done  chan struct{} // closed at the end
	err   error
	ended time.Time
}

func newChecks(conn *bus.Conn, now func() time.Time) *checks {
	return &checks{conn: conn, now: now, slots: make(chan struct{}, maxChecks), running: map[string]*check{}}
}

// run allows checks until ctx is done, and waits until the running ones have ended.
func (c *checks) run(ctx context.Context) error {
	c.mu.Lock()
	c.life = ctx
	c.mu.Unlock()
	<-ctx.Done()
	c.mu.Lock()
	c.life = nil
	c.mu.Unlock()
	c.all.Wait()
	return nil
}

// verify checks that every chunk of a blob, which the leader of the stream holds, can be read and that the whole has
// its digest. Its error is errCorrupt, NotFound for a missing chunk, or Unavailable, also while the check continues.
func (c *checks) verify(ctx context.Context, b *imagev1.Blob) error {
	k, err := c.join(b)
	if err != nil {
		return err
	}
	select {
	case <-k.done:
		c.forget(b, k)
		return k.err
	case <-ctx.Done():
		return refuse(fault.Unavailable, code.StillChecking,
			"the content (%d bytes) is still being read back; repeat the request to wait for it", b.SizeBytes)
	}
}

// join returns the running or fresh check of a blob, or starts one.
func (c *checks) join(b *imagev1.Blob) (*check, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life == nil {
		return nil, fault.New(fault.Unavailable, "the image-catalog is stopping")
	}
	c.dropOld()
	if k, ok := c.running[string(b.Digest)]; ok {
		return k, nil
	}
	k := &check{done: make(chan struct{})}
	c.running[string(b.Digest)] = k
	c.all.Add(1)
	go func(ctx context.Context) {
		defer c.all.Done()
		err := c.read(ctx, b)
		c.mu.Lock()
		k.err, k.ended = err, c.now()
		c.mu.Unlock()
		close(k.done)
	}(c.life)
	return k, nil
}

// dropOld forgets results that no request collected.
func (c *checks) dropOld() {
	for d, k := range c.running {
		if !k.ended.IsZero() && c.now().Sub(k.ended) > keepResult {
			delete(c.running, d)
		}
	}
}

func (c *checks) forget(b *imagev1.Blob, k *check) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running[string(b.Digest)] == k {
		delete(c.running, string(b.Digest))
	}
}

type piece struct {
	data []byte
	err  error
}

// read reads all chunks, readAhead at a time, and hashes them in order.
func (c *checks) read(ctx context.Context, b *imagev1.Blob) error {
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return fault.New(fault.Unavailable, "check content: %w", ctx.Err())
	}
	order := make(chan chan piece, readAhead)
	go c.fetch(ctx, b, order)
	sum := sha256.New()
	for one := range order {
		p := <-one
		switch {
		case fault.RefusalOf(p.err) != nil:
			return errCorrupt
		case p.err != nil:
			return p.err
		}
		sum.Write(p.data)
	}
	if ctx.Err() != nil {
		return fault.New(fault.Unavailable, "check content: %w", ctx.Err())
	}
	if !bytes.Equal(sum.Sum(nil), b.Digest) {
		return errCorrupt
	}
	return nil
}

// fetch requests the chunks one after another, without waiting for their content.
func (c *checks) fetch(ctx context.Context, b *imagev1.Blob, order chan<- chan piece) {
	defer close(order)
	for n := range b.ChunkDigests {
		one := make(chan piece, 1)
		select {
		case order <- one:
		case <-ctx.Done():
			return
		}
		go func() {
			// A deadline of its own: the one of the whole check is too long for one chunk.
			once, cancel := context.WithTimeout(ctx, bus.DefaultTimeout)
			defer cancel()
			data, err := c.storedSoon(once, b, n)
			one <- piece{data, err}
		}()
	}
}

// storedSoon reads a chunk that the leader of the stream holds: a replica that lags behind is asked again, until ctx is
// done. A chunk that stays missing is NotFound, also when ctx ends during the last request.
func (c *checks) storedSoon(ctx context.Context, b *imagev1.Blob, n int) ([]byte, error) {
	var missing error
	for {
		data, err := storedChunk(ctx, c.conn, b, n)
		if missing != nil && ctx.Err() != nil && !errors.Is(err, errCorrupt) {
			return nil, missing
		}
		if !fault.Is(err, fault.NotFound) || fault.RefusalOf(err) != nil {
			return data, err
		}
		missing = err
		select {
		case <-ctx.Done():
			return nil, missing
		case <-time.After(replicaPause):
		}
	}
}
