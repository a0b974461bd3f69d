package registry

import (
	"context"
	"iter"

	"github.com/garrison-fleet/garrison/pkg/bus"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
)

// listWriters answers with one part of the users that caused facts today.
func (r *Registry) listWriters(
	ctx context.Context, _ bus.Caller, q *registryv1.ListWritersRequest,
) (*registryv1.ListWritersResponse, error) {
	type row = *registryv1.Writer
	part, err := records.List(ctx, r.records, q.Page, func(after string) (iter.Seq2[string, row], error) {
		all := r.records.View.Writers.Today(r.cfg.UserBudgets, after, r.cfg.Now())
		return request.Only(all, func(w row) bool { return w.Over || !q.Over }), nil
	})
	return request.Answer(&registryv1.ListWritersResponse{
		Writers: part.Rows, NextCursor: part.Next, LeftOut: part.LeftOut,
	}, err)
}
