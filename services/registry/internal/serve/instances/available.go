package instances

import (
	"context"
	"math"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/page"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/available"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
)

// Available lists the images that are newer than what servers are wanted to have. It reads counts and no instance.
func (a *API) Available(
	ctx context.Context, _ bus.Caller, q *registryv1.ListAvailableRequest,
) (*registryv1.ListAvailableResponse, error) {
	limit, err := request.PageLimit(q.Page)
	if err != nil {
		return nil, err
	}
	after, err := page.After(q)
	if err != nil {
		return nil, err
	}
	resp := &registryv1.ListAvailableResponse{}
	err = a.records.Decider.Query(ctx, func() error {
		filter, err := a.filter(&registryv1.ListInstancesRequest{Agent: q.Agent, Environment: q.Environment})
		if err != nil {
			return err
		}
		v := a.records.View
		rows := available.List(v, v.CountInstances(filter, available.By, math.MaxInt).GetGroups())
		part := page.Take(available.After(rows, after, q.All), limit)
		resp.Available, resp.NextCursor, resp.LeftOut = part.Rows, page.Cursor(q, part.Next), part.LeftOut
		return nil
	})
	return request.Answer(resp, err)
}
