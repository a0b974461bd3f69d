package catalog

import (
	"context"

	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/image"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// chunkType is the content type of stored chunks.
const chunkType = "application/octet-stream"

// putChunk stores a chunk under the digest of its image. It is safe to run twice, and for two
// images that share their content: the subject takes one message, and its digest was checked here.
func (c *Catalog) putChunk(
	ctx context.Context,
	_ bus.Caller,
	q *catalogv1.PutChunkRequest,
) (*catalogv1.PutChunkResponse, error) {
	i, err := c.find(ctx, q.ImageId)
	if err != nil {
		return nil, err
	}
	b := i.Manifest.Blob
	if err := image.CheckChunk(b, int(q.Chunk), q.Content); err != nil {
		return nil, err
	}
	// No message id: after a purge the same chunk must be storable again at once.
	_, err = c.cfg.Conn.PublishDurable(ctx,
		bus.Durable{Subject: topology.BlobSubject(b.Digest, int(q.Chunk)), Type: chunkType, Data: q.Content})
	if err != nil && !fault.Is(err, fault.Conflict) {
		return nil, err
	}
	return &catalogv1.PutChunkResponse{}, c.content.checkWanted(ctx, i)
}

func (c *Catalog) missingChunks(
	ctx context.Context,
	_ bus.Caller,
	q *catalogv1.MissingChunksRequest,
) (*catalogv1.MissingChunksResponse, error) {
	i, err := c.find(ctx, q.ImageId)
	if err != nil {
		return nil, err
	}
	missing, err := c.content.missing(ctx, i.Manifest.Blob)
	return &catalogv1.MissingChunksResponse{Chunks: missing}, err
}

func (c *Catalog) getChunk(
	ctx context.Context,
	_ bus.Caller,
	q *catalogv1.GetChunkRequest,
) (*catalogv1.GetChunkResponse, error) {
	i, err := c.find(ctx, q.ImageId)
	if err != nil {
		return nil, err
	}
	b, n := i.Manifest.Blob, int(q.Chunk)
	if n >= len(b.ChunkDigests) {
		return nil, refuse(fault.NotFound, code.NoSuchChunk, "image %s has no chunk %d (it has %d)", i.Manifest.Id,
			n, len(b.ChunkDigests))
	}
	data, err := storedChunk(ctx, c.cfg.Conn, b, n)
	if fault.Is(err, fault.NotFound) {
		return nil, refuse(fault.NotFound, code.Incomplete, "chunk %d of image %s is not stored yet", n, i.Manifest.Id)
	}
	if fault.RefusalOf(err) != nil {
		c.cfg.Log.Error().Err(err).Str(logs.Image, i.Manifest.Id).Msg("stored chunk is corrupt")
		return nil, refuse(fault.Internal, code.Corrupt,
			"the stored chunk %d of image %s does not have the digest of its manifest", n, i.Manifest.Id)
	}
	return &catalogv1.GetChunkResponse{Content: data}, err
}
