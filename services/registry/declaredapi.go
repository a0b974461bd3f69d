package registry

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/nearest"
	"github.com/garrison-fleet/garrison/pkg/noun/environment"
	"github.com/garrison-fleet/garrison/pkg/page"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/external"
	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// maxDependencies bounds what one agent depends on.
const maxDependencies = 64

// applications returns the operations on applications, which group agents.
func applications(r *records) *declared[*applicationv1.Application] {
	type record = *applicationv1.Application
	return &declared[record]{
		records: r, noun: ledger.Application, command: "garrison app",
		created: func(a record) proto.Message { return &applicationv1.Created{Application: a} },
		changed: func(a record) proto.Message { return &applicationv1.Changed{Application: a} },
		deleted: &applicationv1.Deleted{},
		get:     r.view.Application,
		unknown: func(name string) error { return unknownApplication(r, name) },
		users: func(name string) (int, string, string) {
			return r.view.AgentsIn(name), "agents", "garrison agent list"
		},
		concerns: func(a record) (concern, after) {
			return concern{application: a.Name}, after{View: r.view, application: a}
		},
	}
}

// environments returns the operations on environments, which group servers.
func environments(r *records) *declared[*environmentv1.Environment] {
	type record = *environmentv1.Environment
	return &declared[record]{
		records: r, noun: ledger.Environment, command: "garrison env",
		created: func(e record) proto.Message { return &environmentv1.Created{Environment: e} },
		changed: func(e record) proto.Message { return &environmentv1.Changed{Environment: e} },
		deleted: &environmentv1.Deleted{},
		get:     r.view.Environment,
		unknown: func(name string) error { return notFound(selector.UnknownEnvironment(r.view, name)) },
		check:   checkEnvironment,
		users: func(name string) (int, string, string) {
			return r.view.ServersIn(name), "servers", "garrison server list --env " + name
		},
		concerns: func(e record) (concern, after) {
			return concern{environment: e.Name}, after{View: r.view, environment: e}
		},
	}
}

// agents returns the operations on agents.
func agents(r *records) *declared[*agentv1.Agent] {
	type record = *agentv1.Agent
	return &declared[record]{
		records: r, noun: ledger.Agent, command: "garrison agent",
		created: func(a record) proto.Message { return &agentv1.Created{Agent: a} },
		changed: func(a record) proto.Message { return &agentv1.Changed{Agent: a} },
		deleted: &agentv1.Deleted{},
		get:     r.view.Agent,
		unknown: func(name string) error { return notFound(intent.UnknownAgent(r.view, name)) },
		check:   checkAgent,
		fits:    func(have, next record) error { return agentFits(r, have, next) },
		users: func(name string) (int, string, string) {
			if n := r.view.DefaultsFor(name); n > 0 {
				return n, "environments with a default for it", "garrison env default unset ENVIRONMENT " + name
			}
			n := r.view.InstancesOn(name) + r.view.ExternalsOf(name)
			return n, "instances", "garrison instance list --agent " + name
		},
		concerns: func(a record) (concern, after) {
			return concern{agent: a.Name}, after{View: r.view, agent: a}
		},
	}
}

// checkEnvironment checks the fields that only an environment has.
func checkEnvironment(e *environmentv1.Environment) error {
	if e.Name == environment.None {
		return invalid(code.BadName, "environment %q: the name stands for servers without an environment", e.Name)
	}
	if _, ok := environmentv1.DriftPolicy_name[int32(e.Drift)]; !ok {
		return invalid(code.BadDriftPolicy, "environment %q: want one of the drift policies report, heal, hold", e.Name)
	}
	if e.DriftBrake > 100 {
		return invalid(code.BadDriftPolicy, "environment %q: a brake of %d %%; 100 is the most", e.Name, e.DriftBrake)
	}
	if e.Channel == "" {
		return nil
	}
	if err := ident.CheckName("channel", e.Channel); err != nil {
		return badName(err)
	}
	return nil
}

// checkAgent checks the fields that only an agent has.
func checkAgent(a *agentv1.Agent) error {
	if _, ok := agentv1.Kind_name[int32(a.Kind)]; !ok || a.Kind == agentv1.Kind_KIND_UNSPECIFIED {
		return invalid(code.BadKind,
			"agent %q: want one of the kinds daemon, oneshot, files, self, external", a.Name)
	}
	if refusal := external.CheckAgent(a); refusal != nil {
		return fault.Refuse(fault.Invalid, refusal)
	}
	if len(a.Dependencies) > maxDependencies {
		return invalid(code.BadDependency,
			"agent %q: %d dependencies; %d are the most", a.Name, len(a.Dependencies), maxDependencies)
	}
	return intent.CheckSchema(a.Schema)
}

// agentFits checks that an agent's kind stays, that the records it names exist, and that no agent
// depends on itself. It must run inside Read.
func agentFits(r *records, have, next *agentv1.Agent) error {
	if have != nil && have.Kind != next.Kind {
		return invalid(code.KindFixed,
			"agent %q is of kind %s and stays so; it cannot become %s", next.Name, have.Kind, next.Kind)
	}
	if next.Application != "" {
		if _, ok := r.view.Application(next.Application); !ok {
			return unknownApplication(r, next.Application)
		}
	}
	for _, d := range next.Dependencies {
		if _, ok := r.view.Agent(d); !ok && d != next.Name {
			return notFound(intent.UnknownAgent(r.view, d))
		}
		if dependsOn(r, d, next.Name, map[string]bool{}) {
			return invalid(code.DependencyCycle,
				"agent %q depends on %q, which depends on it", next.Name, d)
		}
	}
	return nil
}

// dependsOn reports whether an agent is another one, or needs it directly or indirectly.
func dependsOn(r *records, name, other string, seen map[string]bool) bool {
	if name == other {
		return true
	}
	if seen[name] {
		return false
	}
	seen[name] = true
	a, _ := r.view.Agent(name)
	for _, d := range a.GetDependencies() {
		if dependsOn(r, d, other, seen) {
			return true
		}
	}
	return false
}

func unknownApplication(r *records, name string) error {
	return notFound(&apiv1.Refusal{
		Code: code.UnknownApplication, Message: fmt.Sprintf("no application %q", name),
		Nearest: nearest.Name(name, r.view.ApplicationNames()), Try: "garrison app list",
	})
}

// list copies one part of a declared noun.
func list[T proto.Message](
	r *records, p *apiv1.Page, rows func(after string) iter.Seq2[string, T],
) (part page.Part[T], err error) {
	limit, err := pageLimit(p)
	if err != nil {
		return part, err
	}
	r.follower.Read(func() { part = page.Take(page.Cloned(rows(p.GetCursor())), limit) })
	return part, nil
}

// serveDeclared answers the requests about applications, environments and agents.
func (r *records) serveDeclared(s *bus.Service) error {
	apps, envs, agents := applications(r), environments(r), agents(r)
	return errors.Join(
		bus.Handle(s, "ListApplications", r.listApplications),
		bus.Handle(s, "CreateApplication", putting(apps.create,
			(*registryv1.CreateApplicationRequest).GetApplication,
			func(a *applicationv1.Application) *registryv1.CreateApplicationResponse {
				return &registryv1.CreateApplicationResponse{Application: a}
			})),
		bus.Handle(s, "ChangeApplication", putting(apps.change,
			(*registryv1.ChangeApplicationRequest).GetApplication,
			func(a *applicationv1.Application) *registryv1.ChangeApplicationResponse {
				return &registryv1.ChangeApplicationResponse{Application: a, Outdated: apps.outdated(a)}
			})),
		bus.Handle(s, "DeleteApplication",
			deleting[*registryv1.DeleteApplicationRequest](apps, &registryv1.DeleteApplicationResponse{})),
		bus.Handle(s, "ListEnvironments", r.listEnvironments),
		bus.Handle(s, "CreateEnvironment", putting(envs.create,
			(*registryv1.CreateEnvironmentRequest).GetEnvironment,
			func(e *environmentv1.Environment) *registryv1.CreateEnvironmentResponse {
				return &registryv1.CreateEnvironmentResponse{Environment: e}
			})),
		bus.Handle(s, "ChangeEnvironment", putting(envs.change,
			(*registryv1.ChangeEnvironmentRequest).GetEnvironment,
			func(e *environmentv1.Environment) *registryv1.ChangeEnvironmentResponse {
				return &registryv1.ChangeEnvironmentResponse{Environment: e, Outdated: envs.outdated(e)}
			})),
		bus.Handle(s, "DeleteEnvironment",
			deleting[*registryv1.DeleteEnvironmentRequest](envs, &registryv1.DeleteEnvironmentResponse{})),
		bus.Handle(s, "ListAgents", r.listAgents),
		bus.Handle(s, "CreateAgent", putting(agents.create,
			(*registryv1.CreateAgentRequest).GetAgent,
			func(a *agentv1.Agent) *registryv1.CreateAgentResponse {
				return &registryv1.CreateAgentResponse{Agent: a}
			})),
		bus.Handle(s, "ChangeAgent", putting(agents.change,
			(*registryv1.ChangeAgentRequest).GetAgent,
			func(a *agentv1.Agent) *registryv1.ChangeAgentResponse {
				return &registryv1.ChangeAgentResponse{Agent: a, Outdated: agents.outdated(a)}
			})),
		bus.Handle(s, "DeleteAgent",
			deleting[*registryv1.DeleteAgentRequest](agents, &registryv1.DeleteAgentResponse{})),
	)
}

func (r *records) listApplications(
	_ context.Context, _ bus.Caller, q *registryv1.ListApplicationsRequest,
) (*registryv1.ListApplicationsResponse, error) {
	part, err := list(r, q.Page, r.view.Applications)
	return answer(&registryv1.ListApplicationsResponse{
		Applications: part.Rows, NextCursor: part.Next, LeftOut: part.LeftOut,
	}, err)
}

func (r *records) listEnvironments(
	_ context.Context, _ bus.Caller, q *registryv1.ListEnvironmentsRequest,
) (*registryv1.ListEnvironmentsResponse, error) {
	part, err := list(r, q.Page, r.view.Environments)
	return answer(&registryv1.ListEnvironmentsResponse{
		Environments: part.Rows, NextCursor: part.Next, LeftOut: part.LeftOut,
	}, err)
}

func (r *records) listAgents(
	_ context.Context, _ bus.Caller, q *registryv1.ListAgentsRequest,
) (*registryv1.ListAgentsResponse, error) {
	part, err := list(r, q.Page, r.view.Agents)
	return answer(&registryv1.ListAgentsResponse{
		Agents: part.Rows, NextCursor: part.Next, LeftOut: part.LeftOut,
	}, err)
}
