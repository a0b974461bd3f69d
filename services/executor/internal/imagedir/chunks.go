package imagedir

import (
	"context"
	"io"
	"os"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

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
