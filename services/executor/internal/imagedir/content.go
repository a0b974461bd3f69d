package imagedir

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/garrison-fleet/garrison/pkg/regular"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// A look at an image (tree.go) reads no content, so it misses a change that keeps a file's size and time. CheckContent
// reads every file and compares the whole with what was unpacked; it is for a part that paces itself. What it finds
// is remembered, and looks report the image as damaged, until another copy takes the image's place.

// readPiece is how much is read between two calls of the pace.
const readPiece = 256 << 10

// sum reads every regular file of a listing below a directory and notes its digest. read, unless nil, is called with
// the bytes of each piece after it was read; its error ends the reading.
func (l listing) sum(ctx context.Context, dir string, read func(context.Context, int) error) error {
	piece := make([]byte, readPiece)
	for i, e := range l {
		if !e.Mode.IsRegular() {
			continue
		}
		sum, err := sumOf(ctx, filepath.Join(dir, e.Name), piece, read)
		if err != nil {
			return fmt.Errorf("read %s: %w", e.Name, err)
		}
		l[i].Sum = sum
	}
	return nil
}

// content digests the names and the digests of the regular files.
func (l listing) content() string {
	whole := sha256.New()
	for _, e := range l {
		if e.Mode.IsRegular() {
			_, _ = fmt.Fprintf(whole, "%q %x\n", e.Name, e.Sum) // never fails
		}
	}
	return hex.EncodeToString(whole.Sum(nil))
}

func sumOf(ctx context.Context, path string, piece []byte, read func(context.Context, int) error) ([]byte, error) {
	f, err := regular.Open(path)
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
// read, nor is what was added. It returns an error only when the reading was ended.
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
	damage := m.content(ctx, dir, read)
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	now, gone := os.Lstat(dir)
	if gone != nil || !os.SameFile(before, now) || damage == "" {
		return false, nil
	}
	s.last.mu.Lock()
	defer s.last.mu.Unlock()
	if s.last.changed == nil {
		s.last.changed = map[string]contentDamage{}
	}
	s.last.changed[string(digest)] = contentDamage{in: before, what: damage}
	delete(s.last.at, string(digest)) // the remembered look did not see it
	return true, nil
}

// content compares the content of a directory with a mark, and returns how it is damaged, in words.
func (m Mark) content(ctx context.Context, dir string, read func(context.Context, int) error) string {
	var now, was listing
	err := json.Unmarshal(m.Files, &was)
	if now = slices.Clone(was); err != nil { // an older executor listed none
		now, err = list(dir)
	}
	if err == nil {
		err = now.sum(ctx, dir, read)
	}
	if err != nil {
		return err.Error()
	}
	if now.content() == m.Content {
		return ""
	}
	var differ words
	for i, e := range was {
		if !bytes.Equal(e.Sum, now[i].Sum) {
			differ = append(differ, shown(e.Name)+" has another content, with its size and time kept")
		}
	}
	return cmp.Or(differ.String(), "the content of a file is not as it was unpacked")
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
	if now, err := os.Lstat(s.root.Image(digest)); err != nil || !os.SameFile(found.in, now) {
		delete(s.last.changed, string(digest)) // another copy is in its place
		return nil
	}
	return damage(found.what)
}

// chunks reads a blob's cached chunks one after another, with one file open at a time.
// A reader need not get to the end, so it must be closed.
func (s *Images) chunks(ctx context.Context, b *imagev1.Blob) io.ReadCloser {
	return &chunkReader{ctx: ctx, root: s.root, digest: b.GetDigest(), count: len(b.GetChunkDigests())}
}

type chunkReader struct {
	ctx    context.Context
	root   layout.Root
	digest []byte
	count  int
	next   int
	open   *os.File
}

// Read implements io.Reader. It closes each file at its end.
func (c *chunkReader) Read(p []byte) (int, error) {
	for {
		if err := c.ctx.Err(); err != nil {
			return 0, err
		}
		if c.open == nil {
			if c.next == c.count {
				return 0, io.EOF
			}
			f, err := os.Open(c.root.Chunk(c.digest, c.next))
			if err != nil {
				return 0, err
			}
			c.open, c.next = f, c.next+1
		}
		n, err := c.open.Read(p)
		if err == io.EOF {
			err = c.Close()
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// Close closes the file that is open.
func (c *chunkReader) Close() error {
	if c.open == nil {
		return nil
	}
	err := c.open.Close()
	c.open = nil
	return err
}
