package imagedir

import (
	"context"
	"errors"
	"io"
	"os"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// chunks reads a blob's cached chunks one after another, with one file open at a time.
func (s *Images) chunks(ctx context.Context, b *imagev1.Blob) io.Reader {
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

// Read implements io.Reader. It closes each file at its end, and the last one at an error.
func (c *chunkReader) Read(p []byte) (int, error) {
	for {
		if err := c.ctx.Err(); err != nil {
			return 0, errors.Join(err, c.close())
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
			err = c.close()
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

func (c *chunkReader) close() error {
	if c.open == nil {
		return nil
	}
	err := c.open.Close()
	c.open = nil
	return err
}
