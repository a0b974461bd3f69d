package registry

import (
	"context"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/proto"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"

	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

// listIntents lists the intents that are kept, the one with the newest fact first.
func (r *Registry) listIntents(
	_ context.Context, _ bus.Caller, q *registryv1.ListIntentsRequest,
) (*registryv1.ListIntentsResponse, error) {
	limit, err := pageLimit(q.Page)
	if err != nil {
		return nil, err
	}
	f := view.IntentFilter{Actor: q.Actor, State: q.State, Is: isVerb(q.Verb)}
	if q.Since != nil {
		f.Since = q.Since.AsTime()
	}
	if c := q.Page.GetCursor(); c != "" {
		if f.Before, err = strconv.ParseUint(c, 10, 64); err != nil || f.Before == 0 {
			return nil, invalid("BAD_CURSOR", fmt.Sprintf("cursor %q is not one that a list returned", c))
		}
	}
	resp := &registryv1.ListIntentsResponse{}
	r.follower.Read(func() {
		found, next := r.view.Intents(f, limit)
		for _, i := range found {
			row := proto.CloneOf(i)
			row.ServerIds = nil
			resp.Intents = append(resp.Intents, row)
		}
		if next > 0 {
			resp.NextCursor = strconv.FormatUint(next, 10)
		}
		resp.Kept = r.view.KeptIntents()
	})
	return resp, nil
}
