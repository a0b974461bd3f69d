package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/space"
	"github.com/garrison-fleet/garrison/services/executor/internal/unpack"
)

const (
	spareBytes  = 16 << 20 // what must be left on the disk when everything was written
	undoBytes   = 1 << 20  // for records, links and output when the old version is brought back
	switchBytes = 2 << 20  // for those of the switch as well
	spareFiles  = 64
	fetchAhead  = 16 << 20 // chunks that a Fetcher may be writing at a time
)

// reserve takes the room that the change needs, so that neither another change nor
// anybody else can take it meanwhile: for the blob, for what is in it beside it, and for
// the switch. The old version keeps its own. Kept versions are given up for it, the oldest first.
func (c *change) reserve(ctx context.Context) error {
	if err := c.holdBlob(ctx); err != nil {
		return err
	}
	if err := c.dropDamaged(); err != nil {
		return err
	}
	c.prepared = c.images.Prepared(c.rec.To.Digest()) // until it is staged, nobody else brings or takes it
	c.reserving.Lock()
	defer c.reserving.Unlock()
	for {
		err := c.takeSpace()
		if !errors.Is(err, syscall.ENOSPC) {
			return err
		}
		more, failed := c.giveUpOldest(c.rec.To.Digest())
		if failed != nil {
			return failed
		}
		if !more {
			return refuse(CodeNoSpace, "%v at %s", err, c.cfg.Root)
		}
	}
}

// takeSpace reserves, or says with ENOSPC what is short.
func (c *change) takeSpace() error {
	free, err := space.Look(string(c.cfg.Root))
	if err != nil {
		return err
	}
	need, files := uint64(switchBytes), uint64(0)
	if b := c.rec.To.GetBlob(); !c.prepared {
		have := c.cachedBytes()
		need += unpackedBytes(b) + blobBytes(b) - min(have, b.GetSizeBytes())
		files = uint64(b.GetEntries()) + uint64(len(b.GetChunkDigests())) + spareFiles
		if need < b.GetUnpackedSizeBytes() || free.Bytes < need+spareBytes {
			return short("%d bytes and %d to spare; %d are free", need, spareBytes, free.Bytes)
		}
	}
	if free.Files < files {
		return short("%d files; %d more can be made", files, free.Files)
	}
	path := filepath.Join(c.cfg.Root.Cache(), layout.TemporaryPrefix+"space-"+c.rec.Agent)
	if c.space, err = space.Reserve(path, need, switchBytes); errors.Is(err, syscall.ENOSPC) {
		return short("%d bytes; %d are free", need, free.Bytes)
	}
	return err
}

func unpackedBytes(b *imagev1.Blob) uint64 {
	return b.GetUnpackedSizeBytes() + uint64(b.GetEntries())*unpack.EntryBytes
}

// blobBytes is what the chunks take, each in a file of its own.
func blobBytes(b *imagev1.Blob) uint64 {
	return b.GetSizeBytes() + uint64(len(b.GetChunkDigests()))*unpack.EntryBytes
}

// cachedBytes is how much of the blob an earlier try left in the cache.
func (c *change) cachedBytes() (n uint64) {
	entries, _ := os.ReadDir(c.cfg.Root.CacheOf(c.rec.To.Digest())) // none is no room saved
	for _, d := range entries {
		if info, err := d.Info(); err == nil {
			n += uint64(info.Size())
		}
	}
	return n
}

// fetched gives back the room of chunks that are in the cache, or are about to be.
func (c *change) fetched(done uint64) {
	b := c.rec.To.GetBlob()
	c.space.ShrinkTo(switchBytes + unpackedBytes(b) + b.GetSizeBytes() - min(done+fetchAhead, b.GetSizeBytes())) // less what only rounding takes
}

// giveBackSpace gives back everything that is still held, as before an undo, which may need it.
func (c *change) giveBackSpace() {
	if c.freeBlob != nil {
		c.freeBlob()
	}
	if err := c.space.Release(); err != nil {
		c.log.Warn().Err(err).Msg("reserved space not given back")
	}
}

// holdBlob waits while another change brings the same blob: two agents may have the same
// content, and what the first one staged the second one need not fetch.
func (c *change) holdBlob(ctx context.Context) error {
	name := hexOf(c.rec.To.Digest())
	for {
		c.mu.Lock()
		other := c.blobs[name]
		if other == nil {
			done := make(chan struct{})
			c.blobs[name] = done
			c.freeBlob = sync.OnceFunc(func() {
				c.mu.Lock()
				delete(c.blobs, name)
				c.mu.Unlock()
				close(done)
			})
		}
		c.mu.Unlock()
		if other == nil {
			return nil
		}
		select {
		case <-other:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// dropDamaged deletes a kept image that is not as it was unpacked, so that it is fetched anew.
func (c *change) dropDamaged() error {
	digest := c.rec.To.Digest()
	if !c.images.Damaged(digest) {
		return nil
	}
	_, err := c.images.Remove(digest, func() (bool, error) { return c.neededBesideKept(digest, c.rec) })
	return err
}

// shortError is an ENOSPC that says how much is needed.
type shortError string

func short(format string, args ...any) error {
	return shortError(fmt.Sprintf("the change needs "+format, args...))
}

// Error implements error.
func (s shortError) Error() string { return string(s) }

// Is says that it is ENOSPC.
func (shortError) Is(target error) bool { return target == syscall.ENOSPC }
