package manifest

import (
	"crypto/sha256"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/topology"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

// The bounds of the content.
const (
	MaxSize     = 4 << 30                      // bytes of a blob
	MaxChunks   = MaxSize / topology.ChunkSize // chunks of a blob; smaller chunks are for smaller blobs
	MaxUnpacked = 64 << 30                     // bytes of all files together
	MaxEntries  = 1_000_000                    // entries of the archive
)

func (f *Faults) blob(b *imagev1.Blob) {
	if n := len(b.GetDigest()); n != sha256.Size {
		f.Add("blob.digest", code.BadManifest, "digest has %d bytes, want %d", n, sha256.Size)
	}
	if n := b.GetUnpackedSizeBytes(); n > MaxUnpacked {
		f.Add("blob.unpacked_size_bytes", code.BadManifest, "unpacked size is %d bytes, want at most %d", n,
			int64(MaxUnpacked))
	}
	if n := b.GetEntries(); n > MaxEntries {
		f.Add("blob.entries", code.BadManifest, "archive has %d entries, want at most %d", n, MaxEntries)
	}
	switch size, chunk := b.GetSizeBytes(), b.GetChunkSizeBytes(); {
	case size == 0 || size > MaxSize:
		f.Add("blob.size_bytes", code.BadManifest, "blob has %d bytes, want 1 to %d", size, int64(MaxSize))
	case chunk == 0 || chunk > topology.ChunkSize:
		f.Add("blob.chunk_size_bytes", code.BadManifest, "chunks have %d bytes, want 1 to %d", chunk,
			topology.ChunkSize)
	default:
		f.chunks(b)
	}
}

// chunks adds the faults of the chunks of a blob whose sizes are valid.
func (f *Faults) chunks(b *imagev1.Blob) {
	const field = "blob.chunk_digests"
	want := (b.SizeBytes + uint64(b.ChunkSizeBytes) - 1) / uint64(b.ChunkSizeBytes)
	if want > MaxChunks {
		f.Add("blob.chunk_size_bytes", code.BadManifest,
			"blob has %d chunks, want at most %d: the chunk size is too small", want, MaxChunks)
		return
	}
	if have := uint64(len(b.ChunkDigests)); have != want {
		f.Add(field, code.BadManifest, "manifest has %d chunk digests, want %d for %d bytes in chunks of %d", have,
			want, b.SizeBytes, b.ChunkSizeBytes)
	}
	for n, d := range b.ChunkDigests {
		if len(d) != sha256.Size {
			f.Add(field, code.BadManifest, "digest of chunk %d has %d bytes, want %d", n, len(d), sha256.Size)
			return
		}
	}
}
