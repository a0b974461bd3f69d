package catalog

import (
	"context"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	sourcev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/source/v1"

	"github.com/garrison-fleet/garrison/services/image-catalog/internal/decision"
)

func (c *Catalog) listSources(
	_ context.Context,
	_ bus.Caller,
	q *catalogv1.ListSourcesRequest,
) (r *catalogv1.ListSourcesResponse, err error) {
	c.follower.Read(func() {
		part, e := c.view.Sources(q.Page)
		r, err = &catalogv1.ListSourcesResponse{Sources: part.Rows, NextCursor: part.Next, LeftOut: part.LeftOut}, e
	})
	return r, err
}

// addSource is safe to run twice: what holds already stays as it is.
func (c *Catalog) addSource(
	ctx context.Context,
	caller bus.Caller,
	q *catalogv1.AddSourceRequest,
) (*catalogv1.AddSourceResponse, error) {
	add := func() ([]ledger.Draft, error) { return decision.AddSource(c.view, q.Name, q.Location, q.Keys) }
	if err := c.decide(ctx, caller, add); err != nil {
		return nil, err
	}
	s, err := c.source(ctx, q.Name)
	return &catalogv1.AddSourceResponse{Source: s}, err
}

// recordSync run twice records the same once more.
func (c *Catalog) recordSync(
	ctx context.Context,
	caller bus.Caller,
	q *catalogv1.RecordSyncRequest,
) (*catalogv1.RecordSyncResponse, error) {
	record := func() ([]ledger.Draft, error) { return decision.RecordSync(c.view, q.Name, q.Synced) }
	if err := c.decide(ctx, caller, record); err != nil {
		return nil, err
	}
	s, err := c.source(ctx, q.Name)
	return &catalogv1.RecordSyncResponse{Source: s}, err
}

// removeSource also succeeds when another request removes the source meanwhile.
func (c *Catalog) removeSource(
	ctx context.Context,
	caller bus.Caller,
	q *catalogv1.RemoveSourceRequest,
) (*catalogv1.RemoveSourceResponse, error) {
	if _, err := c.source(ctx, q.Name); err != nil {
		return nil, err
	}
	remove := func() ([]ledger.Draft, error) { return unlessGone(decision.RemoveSource(c.view, q.Name)) }
	return &catalogv1.RemoveSourceResponse{}, c.decide(ctx, caller, remove)
}

// source returns a source, or a refusal when it does not exist.
func (c *Catalog) source(ctx context.Context, name string) (s *sourcev1.Source, err error) {
	err = c.decider.Query(ctx, func() (e error) { s, e = c.view.Source(name); return e })
	return s, err
}
