package steps

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/garrison-fleet/garrison/pkg/code"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/space"
	"github.com/garrison-fleet/garrison/services/executor/internal/store"
	"github.com/garrison-fleet/garrison/services/executor/internal/unpack"
)

const (
	spareBytes    = 16 << 20 // left on the disk when everything is written
	spareAhead    = 1 << 30  // the same of what is fetched ahead and stays for days, or a tenth of a smaller disk
	rollbackBytes = 1 << 20  // records, links and output when the old version comes back
	switchBytes   = 2 << 20  // the same and those of the switch
	spareFiles    = 64
	fetchAhead    = 16 << 20 // chunks that a Fetcher may be writing at a time
)

// Reserve takes the disk space that the change needs, so that neither another change nor
// another program can take it: for the blob, for its content, and for the switch. The old
// version keeps its own. Kept versions are given up for it, the oldest first.
type Reserve struct {
	Root   layout.Root
	Images *store.Images
	Lock   *sync.Mutex // held while a change looks for space
}

// Do implements Step.
func (s Reserve) Do(ctx context.Context, r *Run) (err error) {
	digest := r.To.Digest()
	if r.freeBlob, err = s.Images.Hold(ctx, digest); err != nil {
		return err
	}
	of := r.Record
	if r.ahead {
		of = nil // it is in no journal: a change of the same agent is another one
	}
	if err := s.Images.DropDamaged(digest, of); err != nil {
		return err
	}
	r.prepared = s.Images.Prepared(digest) // no other change brings or takes it until it is staged
	s.Lock.Lock()
	defer s.Lock.Unlock()
	for {
		err := s.take(r)
		if err == nil && r.ahead {
			r.endAhead = s.Images.HoldsAhead(digest, r.giveWay)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			return err
		}
		more, failed := s.giveUp(ctx, r)
		if failed != nil {
			return failed
		}
		if !more {
			return refuse(code.NoSpace, "%v at %s", err, s.Root)
		}
	}
}

// giveUp deletes what a change may take the room of: what is being fetched ahead first, then what was, and then the
// kept version that was replaced longest ago. What is fetched ahead takes no room that is used already.
func (s Reserve) giveUp(ctx context.Context, r *Run) (more bool, err error) {
	if r.ahead {
		return false, nil
	}
	if more, err = s.Images.StopAhead(ctx); more || err != nil {
		return more, err
	}
	if more, err = s.Images.GiveUpAhead(r.To.Digest()); more || err != nil {
		return more, err
	}
	return s.Images.GiveUpOldest(r.To.Digest())
}

// take reserves the space. An ENOSPC says how much is missing.
func (s Reserve) take(r *Run) error {
	free, err := space.Look(string(s.Root))
	if err != nil {
		return err
	}
	need, files := uint64(switchBytes), uint64(spareFiles)
	if b := r.To.GetBlob(); !r.prepared {
		need = NeedBytes(b) - min(s.cached(r), b.GetSizeBytes())
		files += uint64(b.GetEntries()) + uint64(len(b.GetChunkDigests()))
		spare := max(spareOf(r.ahead, free.Total), r.To.GetMachine().GetDiskBytes())
		if need < b.GetUnpackedSizeBytes() || free.Bytes < need+spare {
			return short("%d bytes and %d to spare; %d are free", need, spare, free.Bytes)
		}
	}
	if free.Files < files {
		return short("%d files; %d more can be made", files, free.Files)
	}
	name := "space-" + r.Agent
	if r.ahead { // beside a change of the same agent
		name = "space+" + r.Agent
	}
	path := filepath.Join(s.Root.Cache(), layout.TemporaryPrefix+name)
	if r.space, err = space.Reserve(path, need, switchBytes); errors.Is(err, syscall.ENOSPC) {
		return short("%d bytes; %d are free", need, free.Bytes)
	}
	return err
}

// spareOf returns what is left on a disk of a size when everything is written.
func spareOf(ahead bool, total uint64) uint64 {
	if ahead {
		return max(spareBytes, min(spareAhead, total/10))
	}
	return spareBytes
}

// cached returns how much of the blob an earlier try left in the cache.
func (s Reserve) cached(r *Run) (n uint64) {
	entries, _ := os.ReadDir(s.Root.CacheOf(r.To.Digest())) // a missing cache saves nothing
	for _, d := range entries {
		if info, err := d.Info(); err == nil {
			n += uint64(info.Size())
		}
	}
	return n
}

// NeedBytes returns how much disk space a change needs that brings a blob.
func NeedBytes(b *imagev1.Blob) uint64 { return switchBytes + unpackedBytes(b) + blobBytes(b) }

func unpackedBytes(b *imagev1.Blob) uint64 {
	return b.GetUnpackedSizeBytes() + uint64(b.GetEntries())*unpack.EntryBytes
}

// blobBytes is what the chunks take, each in a file of its own.
func blobBytes(b *imagev1.Blob) uint64 {
	return b.GetSizeBytes() + uint64(len(b.GetChunkDigests()))*unpack.EntryBytes
}

// shortError is an ENOSPC that says how much is needed.
type shortError string

func short(format string, args ...any) error {
	return shortError(fmt.Sprintf("the change needs "+format, args...))
}

// Error implements error.
func (s shortError) Error() string { return string(s) }

// Is reports that the error is ENOSPC.
func (shortError) Is(target error) bool { return target == syscall.ENOSPC }
