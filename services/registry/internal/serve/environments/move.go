package environments

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/environment"
	rollouts "github.com/garrison-fleet/garrison/pkg/noun/rollout"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	"github.com/garrison-fleet/garrison/pkg/topology"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/defaults"
	"github.com/garrison-fleet/garrison/services/registry/internal/drift"
	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/rolling"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
)

// Move moves servers to another environment, in one atomic batch. It is safe to run twice: a server that is there
// already writes nothing.
func (a *Defaults) Move(
	ctx context.Context, c bus.Caller, q *registryv1.MoveServersRequest,
) (*registryv1.MoveServersResponse, error) {
	resp := &registryv1.MoveServersResponse{}
	err := a.records.Change(ctx, func() ([]ledger.Draft, error) {
		servers, err := a.moved(q)
		if err != nil {
			return nil, err
		}
		p := defaults.PlanMove(a.records.View, servers, q.Environment, a.records.Now())
		if err := cmp.Or(current(q.PlanSha256, p), a.mayMove(q, servers, p)); err != nil {
			return nil, err
		}
		var drafts []ledger.Draft
		for _, s := range servers {
			if s.Environment != q.Environment {
				next := &serverv1.Changed{
					Labels: server.OwnLabels(s), Environment: q.Environment, Owners: s.Owners,
				}
				drafts = append(drafts, a.records.ByCaller(c, ledger.Server, s.Id, next))
			}
		}
		resp.Moved, resp.Already = uint32(len(drafts)), uint32(len(servers)-len(drafts))
		return drafts, nil
	})
	return request.Answer(resp, err)
}

// moved returns the servers that a request selects. It must run inside Read.
func (a *Defaults) moved(q *registryv1.MoveServersRequest) ([]*serverv1.Server, error) {
	if err := a.records.CheckEnvironment(q.Environment); err != nil {
		return nil, err
	}
	found, refusal := selector.Resolve(a.records.View, q.On)
	if refusal != nil {
		return nil, request.NotFound(refusal)
	}
	if len(found.Left) > 0 {
		return nil, request.NotFound(found.Left[0].Reason)
	}
	if n := len(found.Servers); n > topology.MaxBatch-1 {
		return nil, fault.Refusef(fault.Invalid, code.TooMany,
			"%d servers are selected; %d move at once at most", n, topology.MaxBatch-1).Try(fmt.Sprintf(
			"garrison server set %s --on LABEL=VALUE --env %s, part after part", selector.Flags(q.On),
			cmp.Or(q.Environment, environment.None)))
	}
	return found.Servers, nil
}

// Plan returns what a request would install if it were decided now. It writes nothing.
func (a *Defaults) Plan(
	ctx context.Context, _ bus.Caller, q *registryv1.PlanDefaultsRequest,
) (*registryv1.PlanDefaultsResponse, error) {
	limit, err := request.PageLimit(q.Page)
	if err != nil {
		return nil, err
	}
	// A plan that lacks what the caller did a moment ago would be stale at once.
	if err := a.records.Decider.CatchUp(ctx); err != nil {
		return nil, err
	}
	resp := &registryv1.PlanDefaultsResponse{}
	a.records.Follower.Read(func() {
		var p *defaults.Planned
		if p, err = a.planned(q); err != nil {
			return
		}
		resp.PlanSha256, resp.Servers, resp.Present = p.Sum(), uint32(p.Servers), uint32(p.Present)
		resp.Beyond, resp.Already = uint32(p.Beyond), uint32(p.Already)
		shown := &registryv1.PlanIntentResponse{}
		request.PlanPage(shown, p.Plans, &registryv1.PlanIntentRequest{Page: q.Page}, limit)
		resp.Plans, resp.Targets, resp.NextCursor = shown.Plans, shown.Targets, shown.NextCursor
		resp = proto.CloneOf(resp) // its parts belong to the view
	})
	return request.Answer(resp, err)
}

// planned plans a request. It must run inside Read.
func (a *Defaults) planned(q *registryv1.PlanDefaultsRequest) (*defaults.Planned, error) {
	switch ask := q.Ask.(type) {
	case *registryv1.PlanDefaultsRequest_Set:
		if err := a.check(ask.Set); err != nil {
			return nil, err
		}
		have, err := a.fits(ask.Set)
		if err != nil {
			return nil, err
		}
		if err := checkDefaultRevision(ask.Set.Environment, ask.Set.Agent, have, ask.Set.IfRevision); err != nil {
			return nil, err
		}
		p := defaults.PlanSet(a.records.View, ask.Set, a.records.Now())
		return p, a.mayInstall(ask.Set, p) // so that an apply is refused before it writes anything
	case *registryv1.PlanDefaultsRequest_Move:
		servers, err := a.moved(ask.Move)
		if err != nil {
			return nil, err
		}
		p := defaults.PlanMove(a.records.View, servers, ask.Move.Environment, a.records.Now())
		return p, a.mayMove(ask.Move, servers, p)
	}
	return nil, request.Invalid(code.Malformed, "nothing is planned")
}

// healsMany refuses a move by which the environment would heal many servers at once. It must run inside Read.
func (a *Defaults) healsMany(q *registryv1.MoveServersRequest, servers []*serverv1.Server) *apiv1.Refusal {
	to, _ := a.records.View.Environment(q.Environment)
	n := 0
	for _, s := range servers {
		if s.Environment != q.Environment && drift.Drifts(s, a.records.View.InstancesOf(s.Id)) {
			n++
		}
	}
	return drift.MovesTooWide(to, n, MostAtOnce, intent.RepairInWaves(q.On))
}

// mayMove refuses a move by which the environment would heal many servers at once, or its defaults would reach many,
// now or once a rollout under way records one. It must run inside Read.
func (a *Defaults) mayMove(
	q *registryv1.MoveServersRequest, servers []*serverv1.Server, p *defaults.Planned,
) error {
	var then []*rolloutv1.Standing
	for _, r := range a.records.View.Rollouts() {
		if !rollouts.Ended(r.State) && !r.ThenRecorded {
			then = append(then, r.Then...)
		}
	}
	if len(then) > 0 {
		p = defaults.PlanMove(rolling.Ahead(a.records.View, then), servers, q.Environment, a.records.Now())
	}
	most := 0
	var agents, images []string
	for _, one := range p.Plans {
		if n := int(one.Changed + one.LeftOut); n > 0 { // what waits may come to all at once
			most, agents = max(most, n), append(agents, one.Agent)
			images = append(images, intent.Chosen(one.Agent, one.Intent.GetInstall().GetImage()))
		}
	}
	if q.AtOnce {
		return nil
	}
	if refusal := a.healsMany(q, servers); refusal != nil {
		return fault.Refuse(fault.Invalid, refusal)
	}
	if most <= MostAtOnce {
		return nil
	}
	return fault.Refuse(fault.Invalid, intent.TooWide(fmt.Sprintf("the defaults of environment %q would install %s",
		q.Environment, strings.Join(agents, ", ")), most, intent.InWaves("--install "+strings.Join(images, " "), q.On)+
		", and then the move, which finds them there"))
}
