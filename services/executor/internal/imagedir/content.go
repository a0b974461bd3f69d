package imagedir

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/garrison-fleet/garrison/pkg/archive"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

// A look at an image (tree.go) reads no content, so it misses a change that keeps a file's size and time. CheckContent
// reads every file and compares the whole with what was unpacked; it is for a part that paces itself. What it finds
// is remembered, and looks report the image as damaged, until another copy takes the image's place.

// readPiece is how much is read between two calls of the pace.
const readPiece = 256 << 10

// contentOf digests the content of a directory: the name and the sha256 of every regular file, in the order of their
// names. read, unless nil, is called with the bytes of each piece after it was read; its error ends the reading.
func contentOf(ctx context.Context, dir string, read func(context.Context, int) error) (string, error) {
	whole, piece := sha256.New(), make([]byte, readPiece)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || name == archive.Reserved {
			return err
		}
		sum, err := sumOf(ctx, path, piece, read)
		if err == nil {
			_, err = fmt.Fprintf(whole, "%q %x\n", name, sum)
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read %s: %w", dir, err)
	}
	return hex.EncodeToString(whole.Sum(nil)), nil
}

func sumOf(ctx context.Context, path string, piece []byte, read func(context.Context, int) error) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	for {
		n, err := f.Read(piece)
		_, _ = h.Write(piece[:n]) // never fails
		if e := ctx.Err(); e != nil {
			return nil, e
		}
		if read != nil && n > 0 {
			if e := read(ctx, n); e != nil {
				return nil, e
			}
		}
		if err == io.EOF {
			return h.Sum(nil), nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// CheckContent reads every file of an image and reports whether its content is as it was unpacked. An image that is
// missing or damaged for a look already, or that an older executor unpacked without a digest of its content, is not
// read. It returns an error only when the reading was ended.
func (s *Images) CheckContent(
	ctx context.Context, digest []byte, read func(context.Context, int) error,
) (changed bool, err error) {
	m, err := s.Whole(digest)
	if err != nil || m.Content == "" {
		return false, nil
	}
	dir := s.root.Image(digest)
	before, err := os.Lstat(dir)
	if err != nil {
		return false, nil // it was removed meanwhile
	}
	content, err := contentOf(ctx, dir, read)
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	now, gone := os.Lstat(dir)
	if gone != nil || !os.SameFile(before, now) || err == nil && content == m.Content {
		return false, nil
	}
	s.last.mu.Lock()
	defer s.last.mu.Unlock()
	if s.last.changed == nil {
		s.last.changed = map[string]fs.FileInfo{}
	}
	s.last.changed[string(digest)] = before
	delete(s.last.at, string(digest)) // the remembered look did not see it
	return true, nil
}

// SizeOf returns how many bytes the files of an image have.
func (s *Images) SizeOf(digest []byte) (n int64) {
	_ = filepath.WalkDir(s.root.Image(digest), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // what is missing is read by no check
		}
		if info, err := d.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	return n
}

// contentChanged returns that CheckContent found the image changed that is in its place now, or nil.
func (s *Images) contentChanged(digest []byte) error {
	s.last.mu.Lock()
	defer s.last.mu.Unlock()
	found, ok := s.last.changed[string(digest)]
	if !ok {
		return nil
	}
	if now, err := os.Lstat(s.root.Image(digest)); err != nil || !os.SameFile(found, now) {
		delete(s.last.changed, string(digest)) // another copy is in its place
		return nil
	}
	return fault.New(fault.Conflict, "the content of a file of image %x is not as it was unpacked", digest)
}
