package image

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/format"
	"github.com/garrison-fleet/garrison/pkg/manifest"
	"github.com/garrison-fleet/garrison/pkg/seal"
	"github.com/garrison-fleet/garrison/pkg/strictdir"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

// fileFormat numbers the image file. Its numbers stand in the first tar header, as the
// names of the owner and the group, which readers from before there were numbers pass over.
var fileFormat = format.Spec{Kind: "image file", Now: 1, Floor: 1}

const (
	formatPrefix = "format-"
	floorPrefix  = "floor-"
)

// numbers writes a stamp as the names in a tar header.
func numbers(s format.Stamp) (uname, gname string) {
	return formatPrefix + strconv.FormatUint(uint64(s.Format),
		10), floorPrefix + strconv.FormatUint(uint64(s.Floor), 10)
}

// checkFormat refuses a file whose first header has numbers that this program does not know.
func checkFormat(path string, h *tar.Header) error {
	have, err := parseNumber(h.Uname, formatPrefix)
	if err != nil {
		return err
	}
	floor, err := parseNumber(h.Gname, floorPrefix)
	if err != nil {
		return err
	}
	return fileFormat.Check(path, format.Stamp{Format: have, Floor: floor})
}

// parseNumber reads a number behind a prefix; 0 without one.
func parseNumber(text, prefix string) (uint32, error) {
	rest, ok := strings.CutPrefix(text, prefix)
	if !ok {
		return 0, nil
	}
	n, err := strconv.ParseUint(rest, 10, 32)
	if err != nil {
		return 0, refuse(code.NotAnImage, "%q in its header is not a number", fmt.Sprintf("%.40s", text))
	}
	return uint32(n), nil
}

// The entries of an image file.
const (
	manifestEntry = "manifest.json"
	blobEntry     = "blob"
)

// Write writes an image file from a manifest and its chunks, each asked for once and in
// order, until ctx is done. Chunks are checked, and the whole; on any error nothing new is at path.
func Write(
	ctx context.Context,
	path string,
	m *imagev1.Manifest,
	chunk func(ctx context.Context, n int) ([]byte, error),
) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".garrison-image-*")
	if err != nil {
		return fmt.Errorf("write image: %w", err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // fails once it was renamed, as it should
	err = WriteTo(ctx, tmp, m, chunk)
	if err == nil {
		err = errors.Join(tmp.Chmod(0o644), tmp.Sync())
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return fmt.Errorf("write image %s: %w", path, err)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return fmt.Errorf("write image: %w", err)
	}
	return strictdir.Sync(filepath.Dir(path))
}

// WriteTo writes what Write does. After an error, what was written is no image.
func WriteTo(
	ctx context.Context,
	file io.Writer,
	m *imagev1.Manifest,
	chunk func(ctx context.Context, n int) ([]byte, error),
) error {
	if err := manifest.Check(m); err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(file, 1<<20)
	w := tar.NewWriter(buffered)
	text, err := marshalManifest(m)
	if err != nil {
		return err
	}
	h := header(tar.TypeReg, manifestEntry, 0o644)
	h.Uname, h.Gname = numbers(fileFormat.Stamp())
	h.Size = int64(len(text))
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	h = header(tar.TypeReg, blobEntry, 0o644)
	h.Size = int64(m.Blob.SizeBytes)
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	if err := writeBlob(ctx, w, m.Blob, chunk); err != nil {
		return err
	}
	return errors.Join(w.Close(), buffered.Flush())
}

func writeBlob(
	ctx context.Context,
	w io.Writer,
	b *imagev1.Blob,
	chunk func(context.Context, int) ([]byte, error),
) error {
	whole := sha256.New()
	for n := range b.ChunkDigests {
		if err := ctx.Err(); err != nil {
			return err
		}
		data, err := chunk(ctx, n)
		if err != nil {
			return fmt.Errorf("chunk %d: %w", n, err)
		}
		if err := CheckChunk(b, n, data); err != nil {
			return err
		}
		whole.Write(data)
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	if !bytes.Equal(whole.Sum(nil), b.Digest) {
		return refuse(code.WrongDigest, "the chunks together have another digest than the manifest says")
	}
	return nil
}

// marshalManifest returns the same bytes for the same manifest. Protobuf's JSON puts in
// spaces at random, so they are taken out.
func marshalManifest(m *imagev1.Manifest) ([]byte, error) {
	loose, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Compact(&b, loose); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// SignFile adds a signature to an image file, in its place. On any error the file is as it was.
func SignFile(ctx context.Context, path string, seed []byte) (*imagev1.Manifest, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	m := f.Manifest()
	if err := seal.Sign(m, seed); err != nil {
		return nil, err
	}
	return m, Write(ctx, path, m, func(_ context.Context, n int) ([]byte, error) { return f.Chunk(n) })
}
