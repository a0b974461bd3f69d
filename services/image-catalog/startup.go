package catalog

import (
	"context"
	"fmt"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ledger"

	"github.com/garrison-fleet/garrison/services/image-catalog/internal/decision"
)

const firstPause, lastPause = 100 * time.Millisecond, 5 * time.Second

// prepare does what must precede the first request: it creates the default channel and purges
// orphaned content. It retries until both are done, since the bus may still be starting.
func (c *Catalog) prepare(ctx context.Context) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := c.prepareOnce(ctx)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		c.cfg.Log.Warn().Err(err).Dur("retry_in", pause).Msg("start failed; retrying")
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

func (c *Catalog) prepareOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	create := func() ([]ledger.Draft, error) { return decision.CreateDefaultChannel(c.view), nil }
	if err := c.decide(ctx, bus.Caller{}, create); err != nil {
		return fmt.Errorf("create the default channel: %w", err)
	}
	if err := c.content.purgeOrphans(ctx, c.decider.CatchUp); err != nil {
		return fmt.Errorf("purge orphaned content: %w", err)
	}
	return nil
}
