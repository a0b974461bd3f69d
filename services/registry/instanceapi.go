package registry

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/page"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/hold"
	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

// instanceAPI answers requests about instances.
type instanceAPI struct {
	records   *records
	presence  *presenceWatch
	externals *externals
}

func (a *instanceAPI) list(
	ctx context.Context, _ bus.Caller, q *registryv1.ListInstancesRequest,
) (*registryv1.ListInstancesResponse, error) {
	limit, err := pageLimit(q.Page)
	if err != nil {
		return nil, err
	}
	after, err := page.After(q)
	if err != nil {
		return nil, err
	}
	resp := &registryv1.ListInstancesResponse{}
	err = a.records.decider.Query(ctx, func() error {
		filter, err := a.filter(q)
		if err != nil {
			return err
		}
		holds := hold.NewIndex(a.records.view, a.records.now())
		rows := page.Map(a.records.view.Instances(filter, after),
			func(_ string, i *instancev1.Instance) *registryv1.InstanceRow { return a.row(i, holds) })
		if q.WithExternal {
			rows = a.externals.behind(rows, filter, after)
		}
		part := page.Take(rows, limit)
		resp.Instances, resp.NextCursor, resp.LeftOut = part.Rows, page.Cursor(q, part.Next), part.LeftOut
		return nil
	})
	return answer(resp, err)
}

// row returns a copy of an instance with what the list shows of its server. It must run inside Read.
func (a *instanceAPI) row(i *instancev1.Instance, holds hold.Index) *registryv1.InstanceRow {
	s, _ := a.records.view.Server(i.ServerId)
	row := &registryv1.InstanceRow{Instance: proto.CloneOf(i), ServerName: s.GetName(), Presence: s.GetPresence()}
	if h := holds.On(s, i.Agent); h != nil {
		row.Hold = proto.CloneOf(h)
	}
	row.Instance.ConfirmedAt = a.presence.confirmedAt(i.ServerId)
	return row
}

// count counts instances.
func (a *instanceAPI) count(
	ctx context.Context, _ bus.Caller, q *registryv1.CountInstancesRequest,
) (*registryv1.CountInstancesResponse, error) {
	by, top, err := countBy(q.By, q.Top, q.Filter.GetPage(), true)
	if err != nil {
		return nil, err
	}
	resp := &registryv1.CountInstancesResponse{}
	err = a.records.decider.Query(ctx, func() error {
		filter, err := a.filter(cmp.Or(q.Filter, &registryv1.ListInstancesRequest{}))
		switch {
		case err != nil:
		case q.Filter.GetWithExternal():
			resp.Counts = a.records.view.CountWithExternals(filter, by, top, a.externals.confirmedAt)
		default:
			resp.Counts = a.records.view.CountInstances(filter, by, top)
		}
		return err
	})
	return answer(resp, err)
}

// filter checks that the records that a request names exist: a typing error must not look like an
// empty list. An image may be deleted while instances have it. It must run inside Read.
func (a *instanceAPI) filter(q *registryv1.ListInstancesRequest) (view.InstanceFilter, error) {
	filter := view.InstanceFilter{
		Agent: q.Agent, Version: q.Version, Kind: q.Kind, Application: q.Application,
		Environment: q.Environment, State: q.State, Health: q.Health, NotAtWanted: q.NotAtWanted,
	}
	if q.Server != "" {
		s, err := a.records.find(q.Server)
		if err != nil {
			return filter, err
		}
		filter.Server = s.Id
	}
	if err := a.names(q); err != nil {
		return filter, err
	}
	var err error
	if filter.ImageID, err = a.image(q.ImageId); err != nil {
		return filter, err
	}
	if filter.Unconfirmed, err = a.presence.unconfirmed(q.UnconfirmedFor); err != nil {
		return filter, err
	}
	var refusal *apiv1.Refusal
	if filter.On, refusal = selector.NewQuery(a.records.view, q.On); refusal != nil {
		return filter, notFound(refusal)
	}
	return filter, a.records.checkEnvironment(q.Environment)
}

// names refuses an unknown agent or application. It must run inside Read.
func (a *instanceAPI) names(q *registryv1.ListInstancesRequest) error {
	v := a.records.view
	if _, ok := v.Agent(q.Agent); !ok && q.Agent != "" {
		return notFound(intent.UnknownAgent(v, q.Agent))
	}
	if _, ok := v.Application(q.Application); !ok && q.Application != "" {
		return unknownApplication(a.records, q.Application)
	}
	return nil
}

// mostCandidates is how many images an ambiguous prefix is answered with.
const mostCandidates = 3

// image returns the id of the image that a reference stands for: an id, or a prefix of one. It must run inside Read.
func (a *instanceAPI) image(reference string) (string, error) {
	if reference == "" || ident.IsUUID(reference) {
		return reference, nil
	}
	ids := a.records.view.ImagesWith(reference)
	switch {
	case len(ids) == 0:
		return "", fault.Refusef(fault.NotFound, code.NoMatch, "no image has an id that starts with %q", reference).
			Try("garrison image list -o wide")
	case len(ids) > 1:
		more := ""
		if len(ids) > mostCandidates {
			more = fmt.Sprintf(" and %d more", len(ids)-mostCandidates)
		}
		return "", fault.Refusef(fault.Conflict, code.AmbiguousImage, "%q matches several images: %s%s", reference,
			strings.Join(ids[:min(len(ids), mostCandidates)], ", "), more).Try("a longer prefix, or the whole id")
	}
	return ids[0], nil
}
