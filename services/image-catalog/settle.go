package catalog

import (
	"context"
	"math/rand/v2"
	"time"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// tries is how often a decision is taken again because another catalog was faster.
const tries = 10

// settle takes a decision on the present view and records it. When it returns without an
// error the facts can be seen, or there were none to record because the wish already
// holds. A decision that another's fact overtook is taken again on a fresh view.
func (c *Catalog) settle(ctx context.Context, caller bus.Caller, decide func() ([]ledger.Draft, error)) error {
	var overtaken error
	for try := range tries {
		var drafts []ledger.Draft
		var err error
		c.follower.Read(func() { drafts, err = decide() })
		if err != nil || len(drafts) == 0 {
			return err
		}
		if overtaken = c.record(ctx, caller, drafts); !fault.Is(overtaken, fault.Conflict) {
			return overtaken
		}
		if err := c.again(ctx, try); err != nil {
			return err
		}
	}
	return fault.New(fault.Unavailable, "decided %d times and overtaken each time: %w", tries, overtaken)
}

// again waits a moment, longer each time, and reads to the ledger's end.
func (c *Catalog) again(ctx context.Context, try int) error {
	select {
	case <-time.After(rand.N(time.Millisecond << (try + 1))):
	case <-ctx.Done():
	}
	return c.catchUp(ctx)
}

// record stamps drafts, appends them as one unit and waits until the view holds them.
func (c *Catalog) record(ctx context.Context, caller bus.Caller, drafts []ledger.Draft) error {
	at := c.now()
	for i := range drafts {
		f := &drafts[i].Fact
		f.ID, f.At, f.Source, f.Actor, f.Trace = c.newID(), at, ledger.Catalog, caller.Actor, caller.Trace
		if caller.Request != "" {
			f.Request, f.Cause = caller.Request, ledger.CausedByRequest(caller.Request)
		}
	}
	sequence, err := c.writer.Append(ctx, drafts...)
	if err != nil {
		return err
	}
	for _, d := range drafts {
		c.log.Info().Str(logs.Subject, d.Subject()).Str(logs.Actor, caller.Actor).Uint64(logs.Sequence, sequence).Msg("fact recorded")
	}
	return c.follower.Wait(ctx, sequence)
}

// catchUp waits until the view holds everything that is in the ledger now.
func (c *Catalog) catchUp(ctx context.Context) error {
	end, err := c.conn.Stream(ctx, topology.Ledger)
	if err != nil {
		return err
	}
	return c.follower.Wait(ctx, end.LastSequence)
}

// find gives the image that ref names. When there is none it looks again at the end of
// the ledger, because another catalog may have just made it.
func (c *Catalog) find(ctx context.Context, ref string) (*imagev1.Image, error) {
	i, err := c.look(ref)
	if !fault.Is(err, fault.NotFound) {
		return i, err
	}
	if err := c.catchUp(ctx); err != nil {
		return nil, err
	}
	return c.look(ref)
}

func (c *Catalog) look(ref string) (i *imagev1.Image, err error) {
	c.follower.Read(func() {
		var id string
		if id, err = c.view.Resolve(ref); err == nil {
			i, _ = c.view.Image(id)
		}
	})
	return i, err
}
