package catalog

import (
	"context"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/decide"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
)

// decide takes a decision in the name of a caller and records it. When it returns without an
// error, the view holds the facts, or there were none to record.
func (c *Catalog) decide(ctx context.Context, caller bus.Caller, decision decide.Decision) error {
	origin := decide.By(caller)
	var recorded []ledger.Draft
	sequence, err := c.decider.Do(ctx, func() ([]ledger.Draft, error) {
		drafts, err := decision()
		for i, d := range drafts {
			drafts[i].Fact = c.decider.Fact(origin, d.Noun, d.Key, d.Body)
		}
		recorded = drafts
		return drafts, err
	})
	if err != nil {
		return err
	}
	for _, d := range recorded {
		c.cfg.Log.Info().
			Str(logs.Subject, d.Subject()).
			Str(logs.Actor, d.Actor).
			Uint64(logs.Sequence, sequence).
			Msg("fact recorded")
	}
	return nil
}

// change takes a decision about the image that ref names, and returns the image after it.
func (c *Catalog) change(
	ctx context.Context,
	caller bus.Caller,
	ref string,
	decision func(id string) ([]ledger.Draft, error),
) (*imagev1.Image, error) {
	i, err := c.find(ctx, ref)
	if err != nil {
		return nil, err
	}
	id := i.Manifest.Id
	if err := c.decide(ctx, caller, func() ([]ledger.Draft, error) { return decision(id) }); err != nil {
		return nil, err
	}
	return c.find(ctx, id)
}

// find returns the image that ref names: its id, the start of its id, or agent@version.
func (c *Catalog) find(ctx context.Context, ref string) (i *imagev1.Image, err error) {
	err = c.decider.Query(ctx, func() (e error) { i, e = c.view.Find(ref); return e })
	return i, err
}

// unlessGone returns nothing to record when what is to be deleted no longer exists.
func unlessGone(drafts []ledger.Draft, err error) ([]ledger.Draft, error) {
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return drafts, err
}
