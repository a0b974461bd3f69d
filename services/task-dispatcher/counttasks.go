package dispatcher

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/nearest"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/view"
)

// The number of groups of a count.
const defaultGroups, maxGroups = 100, 1000

// countTasks counts the tasks that are kept.
func (a *api) countTasks(
	_ context.Context, _ bus.Caller, q *dispatcherv1.CountTasksRequest,
) (*dispatcherv1.CountTasksResponse, error) {
	known := slices.Sorted(maps.Keys(view.CountFields))
	for n, field := range q.By {
		switch {
		case view.CountFields[field] == nil:
			return nil, fault.Refusef(fault.Invalid, code.Invalid, "no field %.80q to count by (known: %s)", field,
				strings.Join(known, ", ")).Near(nearest.Name(field, slices.Values(known))).Try("--count-by FIELD,FIELD")
		case slices.Contains(q.By[:n], field):
			return nil, fault.Refusef(fault.Invalid, code.Invalid, "counts by %s twice", field).
				Try("--count-by with each field once")
		}
	}
	if q.Filter.GetPage() != nil || q.Top > maxGroups {
		return nil, fault.Refusef(fault.Invalid, code.Invalid,
			"a count has no pages, and %d groups at most", maxGroups).Try("the filter without its page")
	}
	f, err := a.filterOf(q.Filter)
	if err != nil {
		return nil, err
	}
	var r *dispatcherv1.CountTasksResponse
	a.follower.Read(func() { r = a.view.Listing.Count(f, q.By, int(cmp.Or(q.Top, defaultGroups))) })
	return proto.CloneOf(r), nil
}
