package registry

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	"github.com/garrison-fleet/garrison/pkg/topology"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/defaults"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// move moves servers to another environment, in one atomic batch. It is safe to run twice: a server that is there
// already writes nothing.
func (a *defaultsAPI) move(
	ctx context.Context, c bus.Caller, q *registryv1.MoveServersRequest,
) (*registryv1.MoveServersResponse, error) {
	resp := &registryv1.MoveServersResponse{}
	err := a.records.change(ctx, func() ([]ledger.Draft, error) {
		servers, err := a.moved(q)
		if err != nil {
			return nil, err
		}
		if err := current(q.PlanSha256, defaults.PlanMove(a.records.view, servers, q.Environment)); err != nil {
			return nil, err
		}
		var drafts []ledger.Draft
		for _, s := range servers {
			if s.Environment != q.Environment {
				next := &serverv1.Changed{
					Labels: server.OwnLabels(s), Environment: q.Environment, Owners: s.Owners,
				}
				drafts = append(drafts, a.records.byCaller(c, ledger.Server, s.Id, next))
			}
		}
		resp.Moved, resp.Already = uint32(len(drafts)), uint32(len(servers)-len(drafts))
		return drafts, nil
	})
	return answer(resp, err)
}

// moved returns the servers that a request selects. It must run inside Read.
func (a *defaultsAPI) moved(q *registryv1.MoveServersRequest) ([]*serverv1.Server, error) {
	if err := a.records.checkEnvironment(q.Environment); err != nil {
		return nil, err
	}
	found, refusal := selector.Resolve(a.records.view, q.On)
	if refusal != nil {
		return nil, notFound(refusal)
	}
	if len(found.Left) > 0 {
		return nil, notFound(found.Left[0].Reason)
	}
	if n := len(found.Servers); n > topology.MaxBatch-1 {
		return nil, fault.Refusef(fault.Invalid, code.TooManyServers,
			"%d servers are selected; %d move at once at most", n, topology.MaxBatch-1).Try("a narrower selector")
	}
	return found.Servers, nil
}

// plan returns what a request would install if it were decided now. It writes nothing.
func (a *defaultsAPI) plan(
	ctx context.Context, _ bus.Caller, q *registryv1.PlanDefaultsRequest,
) (*registryv1.PlanDefaultsResponse, error) {
	limit, err := pageLimit(q.Page)
	if err != nil {
		return nil, err
	}
	// A plan that lacks what the caller did a moment ago would be stale at once.
	if err := a.records.decider.CatchUp(ctx); err != nil {
		return nil, err
	}
	resp := &registryv1.PlanDefaultsResponse{}
	a.records.follower.Read(func() {
		var p *defaults.Planned
		if p, err = a.planned(q); err != nil {
			return
		}
		resp.PlanSha256, resp.Servers, resp.Present = p.Sum(), uint32(p.Servers), uint32(p.Present)
		resp.Beyond, resp.Already = uint32(p.Beyond), uint32(p.Already)
		shown := &registryv1.PlanIntentResponse{}
		planPage(shown, p.Plans, &registryv1.PlanIntentRequest{Page: q.Page}, limit)
		resp.Plans, resp.Targets, resp.NextCursor = shown.Plans, shown.Targets, shown.NextCursor
		resp = proto.CloneOf(resp) // its parts belong to the view
	})
	return answer(resp, err)
}

// planned plans a request. It must run inside Read.
func (a *defaultsAPI) planned(q *registryv1.PlanDefaultsRequest) (*defaults.Planned, error) {
	switch ask := q.Ask.(type) {
	case *registryv1.PlanDefaultsRequest_Set:
		if err := a.check(ask.Set); err != nil {
			return nil, err
		}
		if _, err := a.fits(ask.Set); err != nil {
			return nil, err
		}
		return defaults.PlanSet(a.records.view, ask.Set), nil
	case *registryv1.PlanDefaultsRequest_Move:
		servers, err := a.moved(ask.Move)
		if err != nil {
			return nil, err
		}
		return defaults.PlanMove(a.records.view, servers, ask.Move.Environment), nil
	}
	return nil, invalid(code.Malformed, "nothing is planned")
}
