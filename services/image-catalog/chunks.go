package catalog

import (
	"context"
	"fmt"

	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/image"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// chunkType is the content type of stored chunks.
const chunkType = "application/octet-stream"

// putChunk stores a chunk under the digest of its image. It is safe to run twice, and
// for two images that share their content: the subject is full after the first, and
// what is there has the digest that was checked here.
func (c *Catalog) putChunk(ctx context.Context, _ bus.Caller, q *catalogv1.PutChunkRequest) (*catalogv1.PutChunkResponse, error) {
	i, err := c.find(ctx, q.ImageId)
	if err != nil {
		return nil, err
	}
	b := i.Manifest.Blob
	if err := image.CheckChunk(b, int(q.Chunk), q.Content); err != nil {
		return nil, err
	}
	// No message id: after a purge the same chunk must be storable again at once.
	_, err = c.conn.PublishDurable(ctx, bus.Durable{Subject: topology.BlobSubject(b.Digest, int(q.Chunk)), Type: chunkType, Data: q.Content})
	if err != nil && !fault.Is(err, fault.Conflict) {
		return nil, err
	}
	return &catalogv1.PutChunkResponse{}, c.stillWanted(ctx, i)
}

// stillWanted purges a chunk that was stored while its last image was deleted.
func (c *Catalog) stillWanted(ctx context.Context, i *imagev1.Image) error {
	if c.hasImage(i.Manifest.Blob.Digest) {
		return nil
	}
	if err := c.conn.Purge(ctx, topology.Blobs, topology.BlobSubjects(i.Manifest.Blob.Digest)); err != nil {
		return err
	}
	return refuse(fault.NotFound, "NO_MATCH", "image %s was deleted meanwhile", i.Manifest.Id)
}

func (c *Catalog) missingChunks(ctx context.Context, _ bus.Caller, q *catalogv1.MissingChunksRequest) (*catalogv1.MissingChunksResponse, error) {
	i, err := c.find(ctx, q.ImageId)
	if err != nil {
		return nil, err
	}
	missing, err := missingOf(ctx, c.conn, i.Manifest.Blob)
	return &catalogv1.MissingChunksResponse{Chunks: missing}, err
}

// missingOf lists the chunks of a blob that are not stored, in order.
func missingOf(ctx context.Context, conn *bus.Conn, b *imagev1.Blob) ([]uint32, error) {
	subjects, err := conn.Subjects(ctx, topology.Blobs, topology.BlobSubjects(b.Digest))
	if err != nil {
		return nil, fmt.Errorf("look for chunks: %w", err)
	}
	stored := make(map[string]bool, len(subjects))
	for _, s := range subjects {
		stored[s] = true
	}
	var missing []uint32
	for n := range b.ChunkDigests {
		if !stored[topology.BlobSubject(b.Digest, n)] {
			missing = append(missing, uint32(n))
		}
	}
	return missing, nil
}

func (c *Catalog) getChunk(ctx context.Context, _ bus.Caller, q *catalogv1.GetChunkRequest) (*catalogv1.GetChunkResponse, error) {
	i, err := c.find(ctx, q.ImageId)
	if err != nil {
		return nil, err
	}
	b, n := i.Manifest.Blob, int(q.Chunk)
	if n >= len(b.ChunkDigests) {
		return nil, refuse(fault.NotFound, image.CodeNoSuchChunk, "image %s has no chunk %d (it has %d)", i.Manifest.Id, n, len(b.ChunkDigests))
	}
	data, err := storedChunk(ctx, c.conn, b, n)
	if fault.Is(err, fault.NotFound) {
		return nil, refuse(fault.NotFound, "INCOMPLETE", "chunk %d of image %s is not stored yet", n, i.Manifest.Id)
	}
	if fault.RefusalOf(err) != nil {
		c.log.Error().Err(err).Str(logs.Image, i.Manifest.Id).Msg("stored chunk is corrupt")
		return nil, refuse(fault.Internal, "CORRUPT", "chunk %d of image %s is stored with other content than its manifest says", n, i.Manifest.Id)
	}
	return &catalogv1.GetChunkResponse{Content: data}, err
}

// storedChunk reads a chunk back and checks it; a refusal says that it is not what it was when it was stored.
func storedChunk(ctx context.Context, conn *bus.Conn, b *imagev1.Blob, n int) ([]byte, error) {
	m, err := conn.DirectGet(ctx, topology.Blobs, topology.BlobSubject(b.Digest, n))
	if err != nil {
		return nil, err
	}
	return m.Data, image.CheckChunk(b, n, m.Data)
}
