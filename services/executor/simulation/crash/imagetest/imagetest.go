// Package imagetest builds images for tests: a packed blob, its chunks and its manifest.
package imagetest

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/manifest"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// ChunkSize is small, so that a blob has several chunks.
const ChunkSize = 128 << 10

// Image is a manifest with its content.
type Image struct {
	Manifest *imagev1.Manifest
	Chunks   [][]byte
}

// File is one entry of an archive.
type File struct {
	Header  tar.Header
	Content []byte
}

// Regular returns a file's entry.
func Regular(name string, mode int64, content []byte) File {
	return File{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, ModTime: time.Unix(1700000000, 0)}, content}
}

// Pack returns the compressed archive of some files.
func Pack(t testing.TB, files ...File) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	for _, f := range files {
		f.Header.Size = int64(len(f.Content))
		if err := w.WriteHeader(&f.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(f.Content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// New builds the image of a daemon for this platform.
func New(t testing.TB, agent, version string, run *imagev1.Run, files ...File) Image {
	t.Helper()
	blob := Pack(t, files...)
	digest := sha256.Sum256(blob)
	b := &imagev1.Blob{
		Digest:         digest[:],
		SizeBytes:      uint64(len(blob)),
		ChunkSizeBytes: ChunkSize,
		Entries:        uint32(len(files)),
	}
	for _, f := range files {
		b.UnpackedSizeBytes += uint64(len(f.Content))
	}
	i := Image{Manifest: &imagev1.Manifest{
		Agent: agent, Version: version, Kind: agentv1.Kind_KIND_DAEMON,
		Platform: &serverv1.Platform{Os: runtime.GOOS, Arch: runtime.GOARCH}, Blob: b, Run: run,
	}}
	i.Manifest.Id = manifest.ID(i.Manifest)
	for len(blob) > 0 {
		n := min(len(blob), ChunkSize)
		sum := sha256.Sum256(blob[:n])
		b.ChunkDigests = append(b.ChunkDigests, sum[:])
		i.Chunks = append(i.Chunks, blob[:n])
		blob = blob[n:]
	}
	return i
}

// Store writes the chunks into a root's cache, as package link does.
func (i Image) Store(root layout.Root) error {
	digest := i.Manifest.GetBlob().GetDigest()
	if err := os.MkdirAll(root.CacheOf(digest), 0o700); err != nil {
		return err
	}
	for n, c := range i.Chunks {
		if err := os.WriteFile(root.Chunk(digest, n), c, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Shelf is a fetcher that copies chunks from another root's cache.
type Shelf struct{ From, To layout.Root }

// Fetch copies the chunks of a blob.
func (s Shelf) Fetch(_ context.Context, b *imagev1.Blob, progress func(uint64)) error {
	i := Image{Manifest: &imagev1.Manifest{Blob: b}}
	var done uint64
	for n := range b.GetChunkDigests() {
		data, err := os.ReadFile(s.From.Chunk(b.GetDigest(), n))
		if err != nil {
			return err
		}
		i.Chunks = append(i.Chunks, data)
		done += uint64(len(data))
		progress(done)
	}
	return i.Store(s.To)
}
