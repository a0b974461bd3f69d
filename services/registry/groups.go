package registry

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// Applications are groups of agents, environments groups of servers. Both are named by
// people and deleted only when empty.

func (r *Registry) listApplications(_ context.Context, _ bus.Caller, q *registryv1.ListApplicationsRequest) (*registryv1.ListApplicationsResponse, error) {
	limit, err := pageLimit(q.Page)
	if err != nil {
		return nil, err
	}
	resp := &registryv1.ListApplicationsResponse{}
	r.follower.Read(func() {
		resp.Applications, resp.NextCursor = page(r.view.Applications(q.Page.GetCursor()), limit)
	})
	return resp, nil
}

func (r *Registry) createApplication(ctx context.Context, c bus.Caller, q *registryv1.CreateApplicationRequest) (*registryv1.CreateApplicationResponse, error) {
	a := q.GetApplication()
	if err := checkApplication(a); err != nil {
		return nil, err
	}
	resp := &registryv1.CreateApplicationResponse{}
	err := r.write(ctx, func() ([]ledger.Draft, error) {
		if _, ok := r.view.Application(a.Name); ok {
			return nil, exists("application", a.Name, "garrison app show "+a.Name)
		}
		f := r.asked(c, ledger.Application, a.Name, &applicationv1.Created{Application: a})
		return []ledger.Draft{r.guarded(f)}, nil
	})
	r.follower.Read(func() {
		have, _ := r.view.Application(a.Name)
		resp.Application = proto.CloneOf(have)
	})
	return answer(resp, err)
}

// changeApplication replaces an application's record. It is safe to run twice: what is
// as it should be writes nothing.
func (r *Registry) changeApplication(ctx context.Context, c bus.Caller, q *registryv1.ChangeApplicationRequest) (*registryv1.ChangeApplicationResponse, error) {
	a := q.GetApplication()
	if err := checkApplication(a); err != nil {
		return nil, err
	}
	next := proto.CloneOf(a)
	resp := &registryv1.ChangeApplicationResponse{}
	err := r.write(ctx, func() ([]ledger.Draft, error) {
		have, ok := r.view.Application(a.Name)
		if !ok {
			return nil, r.unknownApplication(a.Name)
		}
		if next.CreatedAt = have.CreatedAt; proto.Equal(have, next) {
			return nil, nil
		}
		return []ledger.Draft{r.guarded(r.asked(c, ledger.Application, a.Name, &applicationv1.Changed{Application: next}))}, nil
	})
	r.follower.Read(func() {
		have, _ := r.view.Application(a.Name)
		resp.Application = proto.CloneOf(have)
	})
	return answer(resp, err)
}

func (r *Registry) deleteApplication(ctx context.Context, c bus.Caller, q *registryv1.DeleteApplicationRequest) (*registryv1.DeleteApplicationResponse, error) {
	err := r.write(ctx, func() ([]ledger.Draft, error) {
		if _, ok := r.view.Application(q.Name); !ok {
			return nil, r.unknownApplication(q.Name)
		}
		if n := r.view.AgentsIn(q.Name); n > 0 {
			return nil, inUse("application", q.Name, n, "agents", "garrison agent list")
		}
		return []ledger.Draft{r.guarded(r.asked(c, ledger.Application, q.Name, &applicationv1.Deleted{}))}, nil
	})
	return answer(&registryv1.DeleteApplicationResponse{}, err)
}

func (r *Registry) listEnvironments(_ context.Context, _ bus.Caller, q *registryv1.ListEnvironmentsRequest) (*registryv1.ListEnvironmentsResponse, error) {
	limit, err := pageLimit(q.Page)
	if err != nil {
		return nil, err
	}
	resp := &registryv1.ListEnvironmentsResponse{}
	r.follower.Read(func() {
		resp.Environments, resp.NextCursor = page(r.view.Environments(q.Page.GetCursor()), limit)
	})
	return resp, nil
}

func (r *Registry) createEnvironment(ctx context.Context, c bus.Caller, q *registryv1.CreateEnvironmentRequest) (*registryv1.CreateEnvironmentResponse, error) {
	e := q.GetEnvironment()
	if err := checkEnvironmentRecord(e); err != nil {
		return nil, err
	}
	resp := &registryv1.CreateEnvironmentResponse{}
	err := r.write(ctx, func() ([]ledger.Draft, error) {
		if _, ok := r.view.Environment(e.Name); ok {
			return nil, exists("environment", e.Name, "garrison env show "+e.Name)
		}
		f := r.asked(c, ledger.Environment, e.Name, &environmentv1.Created{Environment: e})
		return []ledger.Draft{r.guarded(f)}, nil
	})
	r.follower.Read(func() {
		have, _ := r.view.Environment(e.Name)
		resp.Environment = proto.CloneOf(have)
	})
	return answer(resp, err)
}

// changeEnvironment replaces an environment's record, as changeApplication does.
func (r *Registry) changeEnvironment(ctx context.Context, c bus.Caller, q *registryv1.ChangeEnvironmentRequest) (*registryv1.ChangeEnvironmentResponse, error) {
	e := q.GetEnvironment()
	if err := checkEnvironmentRecord(e); err != nil {
		return nil, err
	}
	next := proto.CloneOf(e)
	resp := &registryv1.ChangeEnvironmentResponse{}
	err := r.write(ctx, func() ([]ledger.Draft, error) {
		have, ok := r.view.Environment(e.Name)
		if !ok {
			return nil, notFound(selector.UnknownEnvironment(r.view, e.Name))
		}
		if next.CreatedAt = have.CreatedAt; proto.Equal(have, next) {
			return nil, nil
		}
		return []ledger.Draft{r.guarded(r.asked(c, ledger.Environment, e.Name, &environmentv1.Changed{Environment: next}))}, nil
	})
	r.follower.Read(func() {
		have, _ := r.view.Environment(e.Name)
		resp.Environment = proto.CloneOf(have)
	})
	return answer(resp, err)
}

func (r *Registry) deleteEnvironment(ctx context.Context, c bus.Caller, q *registryv1.DeleteEnvironmentRequest) (*registryv1.DeleteEnvironmentResponse, error) {
	err := r.write(ctx, func() ([]ledger.Draft, error) {
		if !r.view.EnvironmentExists(q.Name) {
			return nil, notFound(selector.UnknownEnvironment(r.view, q.Name))
		}
		if n := r.view.ServersIn(q.Name); n > 0 {
			return nil, inUse("environment", q.Name, n, "servers", "garrison server list --env "+q.Name)
		}
		return []ledger.Draft{r.guarded(r.asked(c, ledger.Environment, q.Name, &environmentv1.Deleted{}))}, nil
	})
	return answer(&registryv1.DeleteEnvironmentResponse{}, err)
}

func checkApplication(a *applicationv1.Application) error {
	if err := checkGroup("application", a.GetName(), a.GetDescription()); err != nil {
		return err
	}
	return metadata.Check(a.Metadata)
}

func checkEnvironmentRecord(e *environmentv1.Environment) error {
	if err := checkGroup("environment", e.GetName(), e.GetDescription()); err != nil {
		return err
	}
	if e.Channel != "" {
		if err := ident.CheckName("channel", e.Channel); err != nil {
			return badName(err)
		}
	}
	return metadata.Check(e.Metadata)
}

func checkGroup(noun, name, description string) error {
	if err := ident.CheckName(noun, name); err != nil {
		return badName(err)
	}
	return checkDescription(description)
}
