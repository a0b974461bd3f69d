package image

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/manifest"
	"github.com/garrison-fleet/garrison/pkg/regular"
)

// maxManifest bounds manifest.json, in bytes. The longest valid one has MaxChunks digests of 47 bytes.
const maxManifest = 2 << 20

// File is an open image file. Its methods may be called concurrently.
type File struct {
	file     io.ReaderAt
	close    func() error
	manifest *imagev1.Manifest
	offset   int64 // where the blob starts
}

// Open opens an image file and checks its manifest, but not yet its content.
func Open(path string) (*File, error) {
	file, err := regular.Open(path)
	if errors.Is(err, regular.ErrNot) {
		return nil, fmt.Errorf("open image: %w", about(path, refuse(code.NotAnImage, "it is not a file")))
	}
	if err != nil {
		return nil, fmt.Errorf("image: %w. Try: garrison image build DIRECTORY --out FILE, which makes one", err)
	}
	return From(file)
}

// From returns the image in an open file and checks its manifest, but not yet its content. The image closes the file;
// an error closes it, too.
func From(file *os.File) (*File, error) {
	info, err := file.Stat()
	var m *imagev1.Manifest
	var offset int64
	if err == nil {
		m, offset, err = readLayout(file.Name(), file, info.Size())
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("open image: %w", about(file.Name(), err))
	}
	return &File{file: file, close: file.Close, manifest: m, offset: offset}, nil
}

// about adds to a refusal the name of the file and the command to try.
func about(path string, err error) error {
	r := fault.RefusalOf(err)
	if r == nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	r = proto.CloneOf(r)
	r.Message = path + ": " + r.Message
	if r.Code == code.NotAnImage {
		r.Try = "garrison image build DIR"
	}
	return fault.Refuse(fault.KindOf(err), r)
}

// counter counts the bytes read; package tar reads no further than it must.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// readLayout reads the manifest and finds the blob in a file of that size.
func readLayout(path string, file io.ReaderAt, size int64) (*imagev1.Manifest, int64, error) {
	if err := checkStart(file); err != nil {
		return nil, 0, err
	}
	c := &counter{r: io.NewSectionReader(file, 0, size)}
	r := tar.NewReader(c)
	h, err := next(r, manifestEntry)
	if err != nil {
		return nil, 0, err
	}
	if err := checkFormat(path, h); err != nil {
		return nil, 0, err
	}
	if h.Size > maxManifest {
		return nil, 0, refuse(code.NotAnImage, "%s has %d bytes, want at most %d", manifestEntry, h.Size, maxManifest)
	}
	text, err := io.ReadAll(io.LimitReader(r, maxManifest))
	if err != nil {
		return nil, 0, refuse(code.NotAnImage, "the file ends within %s", manifestEntry)
	}
	m := &imagev1.Manifest{}
	if err := protojson.Unmarshal(text, m); err != nil {
		return nil, 0, refuse(code.NotAnImage, "%s cannot be read: %v", manifestEntry, err)
	}
	if err := manifest.Check(m); err != nil {
		return nil, 0, err
	}
	h, err = next(r, blobEntry)
	if err != nil {
		return nil, 0, err
	}
	if uint64(h.Size) != m.Blob.SizeBytes {
		return nil, 0, refuse(code.WrongDigest, "the blob has %d bytes, the manifest says %d", h.Size, m.Blob.SizeBytes)
	}
	if have := size - c.n; have < h.Size {
		return nil, 0, refuse(code.NotAnImage, "the file holds %d of the blob's %d bytes", max(have, 0), h.Size)
	}
	return m, c.n, nil
}

// checkStart refuses a file that does not begin like an image. Otherwise a short file of another kind would
// count as a truncated image.
func checkStart(file io.ReaderAt) error {
	start := make([]byte, len(manifestEntry))
	n, err := file.ReadAt(start, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if !strings.HasPrefix(manifestEntry, string(start[:n])) {
		return refuse(code.NotAnImage, "not an image file: it begins with %q, want %s", start[:n], manifestEntry)
	}
	return nil
}

// next reads the header of an entry that must be a plain file with that name.
func next(r *tar.Reader, name string) (*tar.Header, error) {
	h, err := r.Next()
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return nil, refuse(code.NotAnImage, "the file ends before %s", name)
	case err != nil:
		return nil, refuse(code.NotAnImage, "no %s where it should be: %v", name, err)
	case h.Name != name || h.Typeflag != tar.TypeReg || len(h.PAXRecords) > 0:
		return nil, refuse(code.NotAnImage, "the entry %.80q is where %s should be", h.Name, name)
	}
	return h, nil
}

// Close closes the file.
func (f *File) Close() error { return f.close() }

// Manifest returns a copy of the manifest.
func (f *File) Manifest() *imagev1.Manifest { return proto.CloneOf(f.manifest) }

// Chunks returns the number of chunks.
func (f *File) Chunks() int { return len(f.manifest.Blob.ChunkDigests) }

// Chunk reads chunk n, from 0, and checks it.
func (f *File) Chunk(n int) ([]byte, error) {
	data, err := readChunk(f.file, f.offset, f.manifest.Blob, n)
	if err != nil {
		return nil, err
	}
	return data, CheckChunk(f.manifest.Blob, n, data)
}

// Verify reads the whole content and checks every chunk, the whole, the id and the SBOM.
func (f *File) Verify(ctx context.Context) error {
	if err := manifest.Check(f.manifest); err != nil {
		return err
	}
	whole := sha256.New()
	for n := range f.Chunks() {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("verify image: %w", err)
		}
		data, err := f.Chunk(n)
		if err != nil {
			return fmt.Errorf("verify image: %w", err)
		}
		whole.Write(data)
	}
	if !bytes.Equal(whole.Sum(nil), f.manifest.Blob.Digest) {
		return refuse(code.WrongDigest, "the content has another digest than the manifest says")
	}
	_, _, err := Components(f.manifest.Blob, f.Chunk)
	return err
}

// ChunkLen returns how many bytes chunk n must have.
func ChunkLen(b *imagev1.Blob, n int) int {
	start := uint64(n) * uint64(b.GetChunkSizeBytes())
	return int(min(uint64(b.GetChunkSizeBytes()), b.GetSizeBytes()-start))
}

// CheckChunk refuses data that is not chunk n of a blob whose manifest passed Check.
func CheckChunk(b *imagev1.Blob, n int, data []byte) error {
	if n < 0 || n >= len(b.GetChunkDigests()) {
		return refuse(code.NoSuchChunk, "there is no chunk %d (the image has %d)", n, len(b.GetChunkDigests()))
	}
	if want := ChunkLen(b, n); len(data) != want {
		return refuse(code.WrongDigest, "chunk %d has %d bytes, the manifest says %d", n, len(data), want)
	}
	if d := sha256.Sum256(data); !bytes.Equal(d[:], b.ChunkDigests[n]) {
		return refuse(code.WrongDigest, "chunk %d has another digest than the manifest says", n)
	}
	return nil
}

func readChunk(r io.ReaderAt, offset int64, b *imagev1.Blob, n int) ([]byte, error) {
	if n < 0 || n >= len(b.ChunkDigests) {
		return nil, refuse(code.NoSuchChunk, "there is no chunk %d (the image has %d)", n, len(b.ChunkDigests))
	}
	data := make([]byte, ChunkLen(b, n))
	_, err := r.ReadAt(data, offset+int64(n)*int64(b.ChunkSizeBytes))
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, refuse(code.NotAnImage, "the file ends within chunk %d", n)
	}
	if err != nil {
		return nil, fmt.Errorf("read chunk %d: %w", n, err)
	}
	return data, nil
}
