package unpack_test

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/executor/internal/unpack"
)

// entriesVariable says how many entries are unpacked; a million, the most that an image
// may have, take minutes on a slow disk.
const entriesVariable = "GARRISON_ENTRIES"

// many streams an archive of n empty files in directories of a thousand; it is never whole in memory. It counts the
// entries that were read.
func many(t *testing.T, n int, read *atomic.Int64) io.Reader {
	t.Helper()
	r, w := io.Pipe()
	t.Cleanup(func() { _ = r.Close() })
	go func() {
		z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
		if err != nil {
			_ = w.CloseWithError(err)
			return
		}
		archive := tar.NewWriter(z)
		for i := range n {
			h := &tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("d%03d/f%03d", i/1000, i%1000), Mode: 0o644}
			if err := archive.WriteHeader(h); err != nil {
				_ = w.CloseWithError(err)
				return
			}
			read.Add(1)
		}
		_ = archive.Close()
		_ = w.CloseWithError(z.Close())
	}()
	return r
}

func TestAnArchiveOfMoreEntriesThanItsManifestSaysIsRefusedAtTheFirstOne(t *testing.T) {
	dir := t.TempDir()
	var read atomic.Int64
	archive := many(t, 1_000_001, &read)
	err := unpack.Unpack(context.Background(), archive, dir, unpack.Limits{Entries: 500, Bytes: 1 << 20})
	if got := fault.RefusalOf(err).GetCode(); got != code.TooLarge {
		t.Errorf("got %v, want %s", err, code.TooLarge)
	}
	made, _ := os.ReadDir(dir + "/d000")
	if len(made) != 500 || read.Load() > 500_000 { // compression reads ahead
		t.Errorf("%d files were made, %d entries read", len(made), read.Load())
	}
}

func TestManyEntriesAreUnpackedInAMemoryThatGrowsByTheirNamesOnly(t *testing.T) {
	n := 5_000
	if v := os.Getenv(entriesVariable); v != "" {
		var err error
		if n, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	const each = 400 // bytes of memory for an entry, at most
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var written, most uint64
	limits := unpack.Limits{Entries: uint32(n), Bytes: 1, Writing: func(bytes uint64) {
		if written += bytes; written%(unpack.EntryBytes*uint64(max(n/20, 1))) == 0 {
			runtime.GC()
			runtime.ReadMemStats(&after)
			most = max(most, after.HeapAlloc)
		}
	}}
	began := time.Now()
	if err := unpack.Unpack(context.Background(), many(t, n, new(atomic.Int64)), t.TempDir(), limits); err != nil {
		t.Fatal(err)
	}
	grown := most - min(before.HeapAlloc, most)
	t.Logf("%d entries in %s, %d bytes of memory", n, time.Since(began).Round(time.Millisecond), grown)
	if bound := uint64(16<<20 + each*n); grown > bound {
		t.Errorf("%d bytes of memory for %d entries, want %d at most", grown, n, bound)
	}
}
