package images

import (
	"context"
	"errors"
	"io"

	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/image"
	"github.com/garrison-fleet/garrison/services/gateway/internal/actor"
)

// content reads the archive of an image from the catalog, chunk by chunk. It is an io.ReadSeeker for
// http.ServeContent, which does not return the error of a read.
type content struct {
	ctx   context.Context //nolint:containedctx // of the request, for which it is read
	image *imagev1.Image
	at    int64
	chunk int // of data
	data  []byte
	err   error
}

// Seek implements io.Seeker.
func (c *content) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += c.at
	case io.SeekEnd:
		offset += c.size()
	}
	if offset < 0 {
		return 0, errors.New("seek before the start")
	}
	c.at = offset
	return offset, nil
}

func (c *content) size() int64 { return int64(c.image.GetManifest().GetBlob().GetSizeBytes()) }

// Read implements io.Reader.
func (c *content) Read(p []byte) (int, error) {
	if c.err != nil || c.at >= c.size() {
		return 0, errors.Join(c.err, io.EOF)
	}
	size := int64(c.image.GetManifest().GetBlob().GetChunkSizeBytes())
	if n := int(c.at / size); c.data == nil || n != c.chunk {
		if c.data, c.err = c.fetch(n); c.err != nil {
			return 0, c.err
		}
		c.chunk = n
	}
	n := copy(p, c.data[c.at%size:])
	c.at += int64(n)
	return n, nil
}

// fetch reads a chunk and checks it.
func (c *content) fetch(n int) ([]byte, error) {
	m := c.image.GetManifest()
	r, err := client.Call[*catalogv1.GetChunkResponse](c.ctx, actor.From(c.ctx),
		&catalogv1.GetChunkRequest{ImageId: m.GetId(), Chunk: uint32(n)})
	if err != nil {
		return nil, err
	}
	return r.GetContent(), image.CheckChunk(m.GetBlob(), n, r.GetContent())
}
