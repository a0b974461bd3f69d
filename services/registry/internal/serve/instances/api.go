// Package instances lists, counts and checks instances, external ones too.
package instances

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/page"
	"github.com/garrison-fleet/garrison/pkg/shallow"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/hold"
	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/beats"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/blocks"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/declarations"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

// API answers requests about instances.
type API struct {
	records   *records.Records
	presence  *beats.Watch
	externals *Externals
}

// NewAPI returns what lists and counts instances.
func NewAPI(r *records.Records, p *beats.Watch, e *Externals) *API {
	return &API{records: r, presence: p, externals: e}
}

// List returns instances, a page at a time, with external ones when they match.
func (a *API) List(
	ctx context.Context, _ bus.Caller, q *registryv1.ListInstancesRequest,
) (*registryv1.ListInstancesResponse, error) {
	limit, err := request.PageLimit(q.Page)
	if err != nil {
		return nil, err
	}
	after, err := page.After(q)
	if err != nil {
		return nil, err
	}
	resp := &registryv1.ListInstancesResponse{}
	err = a.records.Decider.Query(ctx, func() error {
		filter, err := a.filter(q)
		if err != nil {
			return err
		}
		holds := hold.NewIndex(a.records.View, a.records.Now())
		found := page.Map(a.records.View.Instances(filter, after),
			func(_ string, i *instancev1.Instance) *registryv1.InstanceRow { return a.row(i, holds) })
		if q.WithExternal {
			found = a.externals.behind(found, filter, after, a.presenceOf, q.Stale)
		}
		part := page.Take(found, limit)
		resp.Instances, resp.NextCursor, resp.LeftOut = part.Rows, page.Cursor(q, part.Next), part.LeftOut
		return nil
	})
	return request.Answer(resp, err)
}

// row returns a copy of an instance with what the list shows of its server. It must run inside Read.
func (a *API) row(i *instancev1.Instance, holds hold.Index) *registryv1.InstanceRow {
	s, _ := a.records.View.Server(i.ServerId)
	row := rows.Get().(*registryv1.InstanceRow)
	shallow.Into(row.Instance, i)
	row.ServerName, row.ByHand = s.GetName(), view.ByHand(i)
	if row.Presence = a.presenceOf(s); row.Presence == serverv1.Presence_PRESENCE_OFFLINE {
		row.OfflineSince = proto.CloneOf(s.Since)
	}
	if h := holds.On(s, i.Agent); h != nil {
		row.Hold = proto.CloneOf(h)
	}
	if a.records.View.BlockCount() > 0 {
		row.Block = blocks.Of(a.records, i, s.GetSysinfo().GetPlatform())
	}
	row.Instance.ConfirmedAt = confirmedAt(i, a.presence.Confirmations.At(i.ServerId))
	return row
}

// presenceOf returns the presence that is shown of a server, which may be nil. It must run inside Read.
func (a *API) presenceOf(s *serverv1.Server) serverv1.Presence {
	if s == nil {
		return serverv1.Presence_PRESENCE_UNSPECIFIED
	}
	shown, _ := a.presence.PresenceOf(s)
	return shown
}

// rows keeps the rows of answers that were sent, to be filled again: a page of 100 would leave 60 KB of garbage.
var rows = sync.Pool{New: func() any { return &registryv1.InstanceRow{Instance: &instancev1.Instance{}} }}

// Reuse takes the rows of a list that was sent.
func Reuse(list *registryv1.ListInstancesResponse) {
	for _, row := range list.Instances {
		instance := row.Instance
		proto.Reset(instance) // what it shares with the view may go
		proto.Reset(row)
		row.Instance = instance
		rows.Put(row)
	}
}

// confirmedAt returns when an instance was last known to be as recorded: a report that differed says so as well as a
// beat that confirms it. It is unset while no beat has confirmed the server's inventory.
func confirmedAt(i *instancev1.Instance, beat *timestamppb.Timestamp) *timestamppb.Timestamp {
	if beat != nil && beat.AsTime().Before(i.ObservedAt.AsTime()) {
		return i.ObservedAt
	}
	return beat
}

// Count counts instances.
func (a *API) Count(
	ctx context.Context, _ bus.Caller, q *registryv1.CountInstancesRequest,
) (*registryv1.CountInstancesResponse, error) {
	by, top, err := request.CountBy(q.By, q.Top, q.Filter.GetPage(), true)
	if err != nil {
		return nil, err
	}
	if q.Filter.GetStale() {
		return nil, request.Invalid(code.Malformed, "stale instances are listed, and not counted")
	}
	resp := &registryv1.CountInstancesResponse{}
	err = a.records.Decider.Query(ctx, func() error {
		filter, err := a.filter(cmp.Or(q.Filter, &registryv1.ListInstancesRequest{}))
		if slices.Contains(by, "presence") {
			filter.Late = a.presence.Late()
		}
		switch {
		case err != nil:
		case q.Filter.GetWithExternal():
			resp.Counts = a.records.View.CountWithExternals(filter, by, top, a.externals.confirmedAt)
		default:
			resp.Counts = a.records.View.CountInstances(filter, by, top)
		}
		a.nameServers(resp.Counts)
		return err
	})
	return request.Answer(resp, err)
}

// nameServers replaces the ids of servers in counts by their names, as far as they are known. It must run inside Read.
func (a *API) nameServers(c *registryv1.Counts) {
	for n, field := range c.GetBy() {
		if field != "server" {
			continue
		}
		for _, g := range c.Groups {
			if s, ok := a.records.View.Server(g.Values[n]); ok && s.Name != "" {
				g.Values[n] = s.Name
			}
		}
	}
}

// filter checks that the records that a request names exist: a typing error must not look like an
// empty list. An image may be deleted while instances have it. It must run inside Read.
func (a *API) filter(q *registryv1.ListInstancesRequest) (view.InstanceFilter, error) {
	filter := view.InstanceFilter{
		Agent: q.Agent, Version: q.Version, Kind: q.Kind, Application: q.Application,
		Environment: q.Environment, State: q.State, Health: q.Health, NotAtWanted: q.NotAtWanted,
		Executors: q.WithExecutors,
	}
	if q.Server != "" {
		s, err := a.records.Find(q.Server)
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
	if filter.Unconfirmed, err = a.presence.Confirmations.Unconfirmed(q.UnconfirmedFor); err != nil {
		return filter, err
	}
	var refusal *apiv1.Refusal
	if filter.On, refusal = selector.NewQuery(a.records.View, q.On); refusal != nil {
		return filter, request.NotFound(refusal)
	}
	return filter, a.records.CheckEnvironment(q.Environment)
}

// names refuses an unknown agent or application. It must run inside Read.
func (a *API) names(q *registryv1.ListInstancesRequest) error {
	v := a.records.View
	executors := q.WithExecutors && q.Agent == view.Executor // which need no agent
	if _, ok := v.Agent(q.Agent); !ok && q.Agent != "" && !executors {
		return request.NotFound(intent.UnknownAgent(v, q.Agent))
	}
	if _, ok := v.Application(q.Application); !ok && q.Application != "" {
		return declarations.UnknownApplication(a.records, q.Application)
	}
	return nil
}

// mostCandidates is how many images an ambiguous prefix is answered with.
const mostCandidates = 3

// image returns the id of the image that a reference stands for: an id, or a prefix of one. It must run inside Read.
func (a *API) image(reference string) (string, error) {
	if reference == "" || ident.IsUUID(reference) {
		return reference, nil
	}
	ids := a.records.View.ImagesWith(reference)
	switch {
	case len(ids) == 0:
		return "", fault.Refusef(fault.NotFound, code.NoMatch, "no image has an id that starts with %q", reference).
			Try("garrison image list -o wide")
	case len(ids) > 1:
		more := ""
		if len(ids) > mostCandidates {
			more = fmt.Sprintf(" and %d more", len(ids)-mostCandidates)
		}
		return "", fault.Refusef(fault.Conflict, code.Ambiguous, "%q matches several images: %s%s", reference,
			strings.Join(ids[:min(len(ids), mostCandidates)], ", "), more).Try("a longer prefix")
	}
	return ids[0], nil
}
