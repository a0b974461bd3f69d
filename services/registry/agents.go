package registry

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/nearest"
)

// maxDependencies bounds what one agent depends on.
const maxDependencies = 64

func (r *Registry) listAgents(_ context.Context, _ bus.Caller, q *registryv1.ListAgentsRequest) (*registryv1.ListAgentsResponse, error) {
	limit, err := pageLimit(q.Page)
	if err != nil {
		return nil, err
	}
	resp := &registryv1.ListAgentsResponse{}
	r.follower.Read(func() {
		resp.Agents, resp.NextCursor = page(r.view.Agents(q.Page.GetCursor()), limit)
	})
	return resp, nil
}

func (r *Registry) createAgent(ctx context.Context, c bus.Caller, q *registryv1.CreateAgentRequest) (*registryv1.CreateAgentResponse, error) {
	agent, err := checkAgent(q.Agent)
	if err != nil {
		return nil, err
	}
	err = r.write(ctx, func() ([]ledger.Draft, error) {
		if _, ok := r.view.Agent(agent.Name); ok {
			return nil, exists("agent", agent.Name, "garrison agent show "+agent.Name)
		}
		return []ledger.Draft{r.guarded(r.asked(c, ledger.Agent, agent.Name, &agentv1.Created{Agent: agent}))}, r.checkAround(agent)
	})
	resp := &registryv1.CreateAgentResponse{}
	if err == nil {
		resp.Agent, err = r.copyAgent(ctx, agent.Name)
	}
	return answer(resp, err)
}

// changeAgent replaces an agent's record. It is safe to run twice: what is as it should be writes nothing.
func (r *Registry) changeAgent(ctx context.Context, c bus.Caller, q *registryv1.ChangeAgentRequest) (*registryv1.ChangeAgentResponse, error) {
	agent, err := checkAgent(q.Agent)
	if err != nil {
		return nil, err
	}
	err = r.write(ctx, func() ([]ledger.Draft, error) {
		have, ok := r.view.Agent(agent.Name)
		if !ok {
			return nil, notFound(intent.UnknownAgent(r.view, agent.Name))
		}
		if have.Kind != agent.Kind {
			return nil, invalid("KIND_FIXED", fmt.Sprintf("agent %q is of kind %s for ever, not %s", agent.Name, have.Kind, agent.Kind))
		}
		if proto.Equal(withoutTimes(have), agent) {
			return nil, nil
		}
		return []ledger.Draft{r.guarded(r.asked(c, ledger.Agent, agent.Name, &agentv1.Changed{Agent: agent}))}, r.checkAround(agent)
	})
	resp := &registryv1.ChangeAgentResponse{}
	if err == nil {
		resp.Agent, err = r.copyAgent(ctx, agent.Name)
	}
	return answer(resp, err)
}

func (r *Registry) deleteAgent(ctx context.Context, c bus.Caller, q *registryv1.DeleteAgentRequest) (*registryv1.DeleteAgentResponse, error) {
	err := r.write(ctx, func() ([]ledger.Draft, error) {
		if _, ok := r.view.Agent(q.Name); !ok {
			return nil, notFound(intent.UnknownAgent(r.view, q.Name))
		}
		if n := r.view.InstancesOn(q.Name); n > 0 {
			return nil, inUse("agent", q.Name, n, "instances", "garrison instance list --agent "+q.Name)
		}
		return []ledger.Draft{r.guarded(r.asked(c, ledger.Agent, q.Name, &agentv1.Deleted{}))}, nil
	})
	return answer(&registryv1.DeleteAgentResponse{}, err)
}

func (r *Registry) copyAgent(ctx context.Context, name string) (out *agentv1.Agent, err error) {
	err = r.look(ctx, func() error {
		a, ok := r.view.Agent(name)
		if !ok { // deleted by somebody else since
			return notFound(intent.UnknownAgent(r.view, name))
		}
		out = proto.CloneOf(a)
		return nil
	})
	return out, err
}

// checkAgent checks what can be checked without looking around, and gives a copy without times.
func checkAgent(a *agentv1.Agent) (*agentv1.Agent, error) {
	if err := ident.CheckName("agent", a.GetName()); err != nil {
		return nil, badName(err)
	}
	if _, ok := agentv1.Kind_name[int32(a.Kind)]; !ok || a.Kind == agentv1.Kind_KIND_UNSPECIFIED {
		return nil, invalid("BAD_KIND", fmt.Sprintf("agent %q: want one of the kinds daemon, oneshot, files, self", a.Name))
	}
	if a.Kind == agentv1.Kind_KIND_EXTERNAL {
		return nil, invalid("UNSUPPORTED_KIND", fmt.Sprintf("agent %q: kind external is not supported yet; want one of daemon, oneshot, files, self", a.Name))
	}
	if len(a.Dependencies) > maxDependencies {
		return nil, invalid("BAD_DEPENDENCY", fmt.Sprintf("agent %q: %d dependencies; %d are the most", a.Name, len(a.Dependencies), maxDependencies))
	}
	if err := metadata.Check(a.Metadata); err != nil {
		return nil, err
	}
	return withoutTimes(a), checkDescription(a.Description)
}

func withoutTimes(a *agentv1.Agent) *agentv1.Agent {
	next := proto.CloneOf(a)
	next.CreatedAt, next.ChangedAt = nil, nil
	return next
}

// checkAround checks that what an agent names is there, and that nothing depends on itself. It must run inside Read.
func (r *Registry) checkAround(a *agentv1.Agent) error {
	if a.Application != "" {
		if _, ok := r.view.Application(a.Application); !ok {
			return r.unknownApplication(a.Application)
		}
	}
	for _, d := range a.Dependencies {
		if _, ok := r.view.Agent(d); !ok && d != a.Name {
			return notFound(intent.UnknownAgent(r.view, d))
		}
		if r.dependsOn(d, a.Name, map[string]bool{}) {
			return invalid("DEPENDENCY_CYCLE", fmt.Sprintf("agent %q depends on %q, which depends on it", a.Name, d))
		}
	}
	return nil
}

// dependsOn says whether an agent is another one or needs it, at any distance.
func (r *Registry) dependsOn(name, other string, seen map[string]bool) bool {
	if name == other {
		return true
	}
	if seen[name] {
		return false
	}
	seen[name] = true
	a, _ := r.view.Agent(name)
	for _, d := range a.GetDependencies() {
		if r.dependsOn(d, other, seen) {
			return true
		}
	}
	return false
}

func (r *Registry) unknownApplication(name string) error {
	return notFound(&apiv1.Refusal{
		Code: "UNKNOWN_APPLICATION", Message: fmt.Sprintf("no application %q", name),
		Nearest: nearest.Name(name, r.view.ApplicationNames()), Try: "garrison app list",
	})
}
