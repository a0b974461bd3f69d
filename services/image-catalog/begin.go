package catalog

import (
	"context"
	"fmt"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// begin does what a start must do before answers: the default channel exists, and
// content that no image has any more is gone. It tries until it is done: at a start the
// bus may still be settling.
func (c *Catalog) begin(ctx context.Context) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := c.beginOnce(ctx)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		c.log.Warn().Err(err).Msg("start is tried again")
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

func (c *Catalog) beginOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	self := bus.Caller{Actor: ledger.Catalog}
	err := c.settle(ctx, self, func() ([]ledger.Draft, error) { return c.view.CreateDefault(), nil })
	if err != nil {
		return fmt.Errorf("create channel: %w", err)
	}
	return c.sweep(ctx)
}

// sweep purges content of images that were deleted while nobody could purge it. A blob
// is only stored for an image that is in the ledger, so whatever was listed before the
// view read to the ledger's end, and has no image then, has none.
func (c *Catalog) sweep(ctx context.Context) error {
	subjects, err := c.conn.Subjects(ctx, topology.Blobs, topology.FirstChunkSubjects)
	if err != nil {
		return err
	}
	if err := c.catchUp(ctx); err != nil {
		return err
	}
	for _, s := range subjects {
		digest, _, err := topology.ParseBlobSubject(s)
		if err != nil || c.hasImage(digest) {
			continue
		}
		if err := c.conn.Purge(ctx, topology.Blobs, topology.BlobSubjects(digest)); err != nil {
			return err
		}
		c.log.Info().Str(logs.Subject, s).Msg("content without an image purged")
	}
	return nil
}

func (c *Catalog) hasImage(digest []byte) bool { return len(c.sharing(digest)) > 0 }

// sharing gives the ids of the images with that content.
func (c *Catalog) sharing(digest []byte) (ids []string) {
	c.follower.Read(func() { ids = c.view.ByDigest(digest) })
	return ids
}
