package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/klauspost/compress/zstd"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/regular"
	"github.com/garrison-fleet/garrison/pkg/sbom"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

// components returns the SBOM of an image that is built; nil without one.
func (o BuildOptions) components(root *os.Root) (data []byte, err error) {
	inside, err := openRegular(root, sbom.Name)
	switch {
	case err == nil:
		defer func() { _ = inside.Close() }()
		if o.SBOM != "" {
			return nil, refuse(code.BadSbom, "the directory has %s, and %s is given too; leave one out", sbom.Name,
				o.SBOM)
		}
		data, err = readSBOM(inside)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s %s", sbom.Name, unreadable(err))
	case o.SBOM != "":
		given, e := regular.Open(o.SBOM)
		if e != nil {
			return nil, fmt.Errorf("read the SBOM: %w", e)
		}
		defer func() { _ = given.Close() }()
		data, err = readSBOM(given)
	case o.FindSBOM:
		return o.found(root)
	default:
		return nil, nil
	}
	if err == nil {
		_, err = sbom.Parse(data)
	}
	return data, err
}

// readSBOM reads one byte more than an SBOM may have, which sbom.Parse refuses.
func readSBOM(r io.Reader) ([]byte, error) { return io.ReadAll(io.LimitReader(r, sbom.MaxBytes+1)) }

// found makes an SBOM of what is known and of the programs in the directory; nil of nothing.
func (o BuildOptions) found(root *os.Root) ([]byte, error) {
	parts := o.Parts
	err := fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := openRegular(root, name)
		if err != nil {
			return notPacked(name, err)
		}
		defer func() { _ = f.Close() }()
		parts = append(parts, sbom.OfGo(f)...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(parts) == 0 {
		if o.Note != nil {
			o.Note("the image has no SBOM: it has no program that Go built and is no package; add one with --sbom FILE")
		}
		return nil, nil
	}
	return sbom.Make(parts)
}

// maxWindow bounds the memory for the window of a compressed blob. Build makes windows of 8 MiB.
const maxWindow = 64 << 20

// Components reads the components in the SBOM of an image, from its chunks; ok is false when it has none. It reads no
// further than it must. An SBOM that cannot be used is refused; a blob that is no archive has none.
func Components(b *imagev1.Blob, chunk func(n int) ([]byte, error)) (all []sbom.Component, ok bool, err error) {
	r := &chunkReader{chunks: len(b.GetChunkDigests()), chunk: chunk}
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, false, r.err
	}
	defer z.Close()
	t := tar.NewReader(z)
	h, err := t.Next()
	if err != nil || h.Name != sbom.Name || h.Typeflag != tar.TypeReg {
		return nil, false, r.err
	}
	data, err := readSBOM(t)
	if err != nil {
		return nil, false, errors.Join(r.err, refuse(code.BadSbom, "%s cannot be unpacked: %v", sbom.Name, err))
	}
	all, err = sbom.Parse(data)
	return all, err == nil, err
}

// chunkReader reads chunks one after another. It keeps the error of a chunk that cannot be read.
type chunkReader struct {
	chunks, next int
	chunk        func(n int) ([]byte, error)
	rest         []byte
	err          error
}

// Read implements io.Reader.
func (r *chunkReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 && r.err == nil {
		if r.next == r.chunks {
			return 0, io.EOF
		}
		r.rest, r.err = r.chunk(r.next)
		r.next++
	}
	if r.err != nil {
		return 0, r.err
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
