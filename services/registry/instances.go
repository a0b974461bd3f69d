package registry

import (
	"context"

	"github.com/garrison-fleet/garrison/pkg/bus"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

func (r *Registry) listInstances(ctx context.Context, _ bus.Caller, q *registryv1.ListInstancesRequest) (*registryv1.ListInstancesResponse, error) {
	limit, err := pageLimit(q.Page)
	if err != nil {
		return nil, err
	}
	resp := &registryv1.ListInstancesResponse{}
	err = r.look(ctx, func() error {
		filter, err := r.instanceFilter(q)
		if err != nil {
			return err
		}
		var rows []*instancev1.Instance
		match, refusal := selector.Matcher(r.view, q.On)
		if refusal != nil {
			return notFound(refusal)
		}
		on := func(i *instancev1.Instance) bool {
			s, ok := r.view.Server(i.ServerId)
			return ok && match(s)
		}
		rows, resp.NextCursor = page(only(r.view.Instances(filter, q.Page.GetCursor()), on), limit)
		for _, i := range rows {
			s, _ := r.view.Server(i.ServerId)
			resp.Instances = append(resp.Instances, &registryv1.InstanceRow{Instance: i, ServerName: s.GetName(), Presence: s.GetPresence()})
		}
		return nil
	})
	for _, row := range resp.Instances {
		row.Instance.ConfirmedAt = r.confirmed(row.Instance.ServerId) // not within look: a sweep locks the other way round
	}
	return answer(resp, err)
}

// instanceFilter checks that everything a filter names is there: a filter with a typing
// error must not look like an empty list. An image may be gone while instances have it.
func (r *Registry) instanceFilter(q *registryv1.ListInstancesRequest) (view.InstanceFilter, error) {
	filter := view.InstanceFilter{Agent: q.Agent, ImageID: q.ImageId, Environment: q.Environment, State: q.State}
	if q.Server != "" {
		s, err := r.find(q.Server)
		if err != nil {
			return filter, err
		}
		filter.Server = s.Id
	}
	if q.Agent != "" {
		if _, ok := r.view.Agent(q.Agent); !ok {
			return filter, notFound(intent.UnknownAgent(r.view, q.Agent))
		}
	}
	return filter, r.checkEnvironment(q.Environment)
}
