package catalog

import (
	"context"
	"errors"
	"fmt"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/image"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/image-catalog/internal/view"
)

// content is the content of images: their chunks in the stream BLOBS.
type content struct {
	conn     *bus.Conn
	log      zerolog.Logger
	view     *view.View
	follower *fold.Follower
	checks   *checks
}

// missing lists the chunks of a blob that are not stored, in order.
func (c *content) missing(ctx context.Context, b *imagev1.Blob) ([]uint32, error) {
	subjects, err := c.conn.Subjects(ctx, topology.Blobs, topology.BlobSubjects(b.Digest))
	if err != nil {
		return nil, fmt.Errorf("list stored chunks: %w", err)
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

// checkWanted purges and refuses a chunk that was stored while its last image was deleted.
func (c *content) checkWanted(ctx context.Context, i *imagev1.Image) error {
	if c.isUsed(i.Manifest.Blob.Digest) {
		return nil
	}
	if err := c.purge(ctx, i.Manifest.Blob.Digest); err != nil {
		return err
	}
	return refuse(fault.NotFound, code.NoMatch, "image %s was deleted meanwhile", i.Manifest.Id)
}

// verify refuses an image whose content is incomplete or corrupt.
func (c *content) verify(ctx context.Context, i *imagev1.Image) error {
	missing, err := c.missing(ctx, i.Manifest.Blob)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return incomplete(i, len(missing))
	}
	err = c.checks.verify(ctx, i.Manifest.Blob)
	switch {
	case errors.Is(err, errCorrupt):
		return c.purgeCorrupt(ctx, i)
	case fault.Is(err, fault.NotFound):
		return incomplete(i, 1)
	}
	return err
}

func incomplete(i *imagev1.Image, missing int) error {
	m := i.Manifest
	return refuse(fault.Conflict, code.Incomplete,
		"image %s (%s %s) lacks %d of %d chunks; send them, then activate it",
		m.Id, m.Agent, m.Version, missing, len(m.Blob.ChunkDigests))
}

// purgeCorrupt purges content that does not have the digest of its manifest, so that it can be
// uploaded again.
func (c *content) purgeCorrupt(ctx context.Context, i *imagev1.Image) error {
	m := i.Manifest
	c.log.Error().Str(logs.Image, m.Id).Hex("digest", m.Blob.Digest).Msg("stored content is corrupt")
	if err := c.purge(ctx, m.Blob.Digest); err != nil {
		return err
	}
	return refuse(fault.Conflict, code.WrongDigest,
		"the stored content of image %s (%s %s) did not have the digest of its manifest and was purged; "+
			"send all %d chunks again", m.Id, m.Agent, m.Version, len(m.Blob.ChunkDigests))
}

// purgeOrphans purges the content of images that were deleted by a catalog that stopped before it
// purged. A blob is stored only for an image in the ledger, so a blob that was listed before the
// view caught up with the ledger, and has no image then, is an orphan.
func (c *content) purgeOrphans(ctx context.Context, catchUp func(context.Context) error) error {
	subjects, err := c.conn.Subjects(ctx, topology.Blobs, topology.FirstChunkSubjects)
	if err != nil {
		return err
	}
	if err := catchUp(ctx); err != nil {
		return err
	}
	for _, s := range subjects {
		digest, _, err := topology.ParseBlobSubject(s)
		if err != nil || c.isUsed(digest) {
			continue
		}
		if err := c.purge(ctx, digest); err != nil {
			return err
		}
		c.log.Info().Str(logs.Subject, s).Msg("orphaned content purged")
	}
	return nil
}

func (c *content) purge(ctx context.Context, digest []byte) error {
	return c.conn.Purge(ctx, topology.Blobs, topology.BlobSubjects(digest))
}

// isUsed reports whether an image has that content.
func (c *content) isUsed(digest []byte) bool { return len(c.imagesOf(digest)) > 0 }

// imagesOf returns the ids of the images with that content.
func (c *content) imagesOf(digest []byte) (ids []string) {
	c.follower.Read(func() { ids = c.view.ByDigest(digest) })
	return ids
}

// blob returns the description of some content; nil when no image has it.
func (c *content) blob(digest []byte) (b *imagev1.Blob) {
	c.follower.Read(func() {
		if ids := c.view.ByDigest(digest); len(ids) > 0 {
			b = c.view.Manifest(ids[0]).GetBlob()
		}
	})
	return b
}

// storedChunk reads a chunk back and checks it; its error is a refusal when the content is corrupt.
func storedChunk(ctx context.Context, conn *bus.Conn, b *imagev1.Blob, n int) ([]byte, error) {
	m, err := conn.DirectGet(ctx, topology.Blobs, topology.BlobSubject(b.Digest, n))
	if err != nil {
		return nil, err
	}
	return m.Data, image.CheckChunk(b, n, m.Data)
}

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
		return nil, refuse(fault.Internal, code.WrongDigest,
			"the stored chunk %d of image %s does not have the digest of its manifest", n, i.Manifest.Id)
	}
	return &catalogv1.GetChunkResponse{Content: data}, err
}
