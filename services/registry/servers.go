package registry

import (
	"context"
	"maps"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
	"github.com/garrison-fleet/garrison/services/registry/internal/server"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

func (r *Registry) listServers(ctx context.Context, _ bus.Caller, q *registryv1.ListServersRequest) (*registryv1.ListServersResponse, error) {
	limit, err := pageLimit(q.Page)
	if err != nil {
		return nil, err
	}
	resp := &registryv1.ListServersResponse{}
	err = r.look(ctx, func() error {
		filter := view.ServerFilter{Environment: q.Environment, Labels: q.Labels, Life: q.Life, Presence: q.Presence, Leaked: q.Leaked, Found: q.Found}
		match, refusal := selector.Matcher(r.view, q.On)
		if refusal != nil {
			return notFound(refusal)
		}
		resp.Servers, resp.NextCursor = page(only(r.view.Servers(filter, q.Page.GetCursor()), match), limit)
		for _, s := range resp.Servers {
			s.Duties = r.dutiesLeft(s)
		}
		return r.checkEnvironment(q.Environment)
	})
	return answer(resp, err)
}

func (r *Registry) getServer(ctx context.Context, _ bus.Caller, q *registryv1.GetServerRequest) (*registryv1.GetServerResponse, error) {
	resp := &registryv1.GetServerResponse{}
	err := r.copyServer(ctx, q.Server, &resp.Server)
	return answer(resp, err)
}

// copyServer copies the server that is meant to where it is wanted.
func (r *Registry) copyServer(ctx context.Context, reference string, to **serverv1.Server) error {
	return r.look(ctx, func() error {
		s, err := r.find(reference)
		if err == nil {
			*to = proto.CloneOf(s)
			(*to).Duties = r.dutiesLeft(s)
		}
		return err
	})
}

// changeServer replaces labels and environment. It is safe to run twice: what is as it
// should be writes nothing.
func (r *Registry) changeServer(ctx context.Context, c bus.Caller, q *registryv1.ChangeServerRequest) (*registryv1.ChangeServerResponse, error) {
	if err := checkLabels(q.SetLabels); err != nil {
		return nil, err
	}
	var id string
	err := r.write(ctx, func() ([]ledger.Draft, error) {
		s, err := r.find(q.Server)
		if err != nil {
			return nil, err
		}
		id = s.Id
		next, err := r.changed(s, q)
		if err != nil || maps.Equal(next.Labels, s.Labels) && next.Environment == s.Environment {
			return nil, err
		}
		return []ledger.Draft{r.guarded(r.asked(c, ledger.Server, s.Id, next))}, nil
	})
	resp := &registryv1.ChangeServerResponse{}
	if err == nil {
		err = r.copyServer(ctx, id, &resp.Server)
	}
	return answer(resp, err)
}

// changed gives what a server's record should be. It must run inside Read.
func (r *Registry) changed(s *serverv1.Server, q *registryv1.ChangeServerRequest) (*serverv1.Changed, error) {
	if !server.Living(s) {
		return nil, notFound(selector.NotAlive(s))
	}
	next := &serverv1.Changed{Labels: maps.Clone(s.Labels), Environment: s.Environment}
	if next.Labels == nil {
		next.Labels = map[string]string{}
	}
	for _, k := range q.UnsetLabels {
		delete(next.Labels, k)
	}
	maps.Copy(next.Labels, q.SetLabels)
	if err := checkLabels(next.Labels); err != nil {
		return nil, err
	}
	if q.Environment == nil {
		return next, nil
	}
	next.Environment = *q.Environment
	return next, r.checkEnvironment(next.Environment)
}

// answer gives a response or an error, never both.
func answer[R any](resp *R, err error) (*R, error) {
	if err != nil {
		return nil, err
	}
	return resp, nil
}
