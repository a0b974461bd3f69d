package operator

import (
	"fmt"
	"testing"

	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

// defaults answers about the defaults of environments: each default is installed on web-1 and waits on web-2, a plan
// of the agent stale is stale, and web-1 lacks the agent shipper.
func (f *fakes) defaults(t testing.TB, s *bus.Service) {
	handle(t, f, s, "PlanDefaults", planDefaults)
	handle(t, f, s, "SetDefault", func(q *registryv1.SetDefaultRequest) (*registryv1.SetDefaultResponse, error) {
		if string(q.GetPlanSha256()) != "plan" || q.GetAgent() == "stale" {
			return nil, fault.Refuse(fault.Conflict, planStale)
		}
		if err := f.checkDefault(q.GetEnvironment(), q.GetAgent(), q.GetIfRevision()); err != nil {
			return nil, err
		}
		d := &environmentv1.Default{
			Image: q.GetImage(), Metadata: q.GetMetadata(), Reach: q.GetReach(), Actor: "alice", SetAt: ago(0),
			Revision: 7,
		}
		for _, e := range f.envs {
			if e.GetName() == q.GetEnvironment() {
				e.Defaults = map[string]*environmentv1.Default{q.GetAgent(): d}
			}
		}
		return &registryv1.SetDefaultResponse{Default: d}, nil
	})
	handle(t, f, s, "UnsetDefault", func(q *registryv1.UnsetDefaultRequest) (*registryv1.UnsetDefaultResponse, error) {
		if q.GetAgent() != "beacon" {
			return nil, unknown("NOT_FOUND", "default", q.GetAgent(), "beacon")
		}
		if n := q.GetIfRevision(); n != 0 {
			return &registryv1.UnsetDefaultResponse{}, f.checkDefault(q.GetEnvironment(), q.GetAgent(), n)
		}
		return &registryv1.UnsetDefaultResponse{}, nil
	})
	handle(t, f, s, "ListDefaults", f.listDefaults)
	handle(t, f, s, "CountInstances", countInstances)
	handle(t, f, s, "ListAvailable", listAvailable)
	handle(t, f, s, "MoveServers", func(q *registryv1.MoveServersRequest) (*registryv1.MoveServersResponse, error) {
		if string(q.GetPlanSha256()) != "plan" {
			return nil, fault.Refuse(fault.Conflict, planStale)
		}
		return &registryv1.MoveServersResponse{Moved: 1, Already: 1}, nil
	})
}

// checkDefault refuses a change that is not based on the default as it is; each one that is set has the revision 7.
func (f *fakes) checkDefault(environment, agent string, revision uint64) error {
	for _, e := range f.envs {
		if have := e.GetDefaults()[agent]; e.GetName() == environment && have.GetRevision() != revision {
			return fault.Refuse(fault.Conflict, &apiv1.Refusal{
				Code: "REVISION_CHANGED", Message: fmt.Sprintf("revision %d, not %d", have.GetRevision(), revision),
			})
		}
	}
	return nil
}

var planStale = &apiv1.Refusal{Code: "PLAN_STALE", Message: "the plan no longer holds"}

var noImage = &apiv1.Refusal{Code: "WRONG_PLATFORM", Message: "image 1.0.0 does not run on linux/arm64"}

var lacksImage = []*intentv1.Reason{{
	Code: noImage.Code, Effect: intentv1.Effect_EFFECT_LEFT_OUT, Count: 1, ServerIds: []string{web2}, First: noImage,
}}

func planDefaults(q *registryv1.PlanDefaultsRequest) (*registryv1.PlanDefaultsResponse, error) {
	if q.GetSet().GetEnvironment() == "gone" || q.GetMove().GetEnvironment() == "gone" {
		return nil, unknown("UNKNOWN_ENVIRONMENT", "environment", "gone", "prod")
	}
	agent := q.GetSet().GetAgent()
	if agent == "" {
		agent = "beacon"
	}
	ask := &intentv1.Intent{Ask: &intentv1.Intent_Install{Install: &intentv1.Install{Agent: agent}}}
	return &registryv1.PlanDefaultsResponse{
		Plans: []*intentv1.Plan{{
			Intent: ask, Agent: agent, Changed: 1, LeftOut: 1,
			Reasons: lacksImage,
		}},
		Targets: []*intentv1.Target{
			{
				ServerId: web1, ServerName: "web-1", Agent: agent, To: &imagev1.Ref{Id: web1, Version: "1.0.0"},
				Effect: intentv1.Effect_EFFECT_CHANGE, Move: intentv1.Move_MOVE_INSTALL,
			},
			{
				ServerId: web2, ServerName: "web-2", Agent: agent, Reason: noImage,
				Effect: intentv1.Effect_EFFECT_LEFT_OUT,
			},
		},
		PlanSha256: []byte("plan"), Servers: 4, Present: 1, Beyond: 1, Already: 1,
	}, nil
}

func (f *fakes) listDefaults(q *registryv1.ListDefaultsRequest) (*registryv1.ListDefaultsResponse, error) {
	if q.GetServer() != "" {
		d := &environmentv1.Default{Reach: environmentv1.Reach_REACH_NEW, Actor: "alice", SetAt: ago(0)}
		row := &registryv1.DefaultRow{Environment: "prod", Agent: "shipper", Default: d}
		row.Servers = map[uint32]uint32{1: 1}
		if q.GetServer() == web1 {
			row.Servers = map[uint32]uint32{3: 1}
			row.Reasons = []*intentv1.Reason{{Code: noImage.Code, Count: 1, First: noImage}}
		}
		return &registryv1.ListDefaultsResponse{Defaults: []*registryv1.DefaultRow{row}, Members: 1}, nil
	}
	resp := &registryv1.ListDefaultsResponse{Members: 3}
	for _, e := range f.envs {
		for agent, d := range e.GetDefaults() {
			if q.GetEnvironment() != "" && e.GetName() != q.GetEnvironment() ||
				q.GetAgent() != "" && agent != q.GetAgent() {
				continue
			}
			resp.Defaults = append(resp.Defaults, &registryv1.DefaultRow{
				Environment: e.GetName(), Agent: agent, Default: d, Servers: map[uint32]uint32{1: 2, 3: 1},
				Reasons: lacksImage,
			})
		}
	}
	return resp, nil
}

// countInstances counts the same instances in every environment, and another version of beacon in test.
func countInstances(q *registryv1.CountInstancesRequest) (*registryv1.CountInstancesResponse, error) {
	if len(q.GetBy()) == 3 {
		return &registryv1.CountInstancesResponse{Counts: &registryv1.Counts{Total: 49, Groups: stateGroups}}, nil
	}
	if len(q.GetBy()) == 1 {
		groups := []*registryv1.CountGroup{{Values: []string{"1.0.0"}, Count: 2}}
		return &registryv1.CountInstancesResponse{Counts: &registryv1.Counts{Total: 2, Groups: groups}}, nil
	}
	groups := []*registryv1.CountGroup{
		{Values: []string{"beacon", "1.0.0"}, Count: 2},
		{Values: []string{"same", "1.0.0"}, Count: 3},
	}
	if q.GetFilter().GetEnvironment() == "test" {
		groups[0].Count = 1
		groups = append(groups, &registryv1.CountGroup{Values: []string{"beacon", "1.1.0"}, Count: 1})
	}
	return &registryv1.CountInstancesResponse{Counts: &registryv1.Counts{Groups: groups}}, nil
}
