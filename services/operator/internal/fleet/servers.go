package fleet

import (
	"context"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/display"
)

// Server returns a server by id, unique prefix or name.
func Server(ctx context.Context, env *cli.Env, name string) (display.Server, error) {
	found, _, err := ServerNow(ctx, env, name)
	return found, err
}

// ServerNow is Server, and why no change of an agent may begin there now; nil when one may.
func ServerNow(ctx context.Context, env *cli.Env, name string) (display.Server, *registryv1.Closed, error) {
	r, err := cli.Call[*registryv1.GetServerResponse](ctx, env, &registryv1.GetServerRequest{Server: name})
	return r.GetServer(), r.GetClosed(), err
}

// Servers returns every server that is not dead, or none on an error.
func Servers(ctx context.Context, env *cli.Env) []display.Server {
	r, err := cli.Collect(
		ctx,
		cli.PageFlags{},
		func(ctx context.Context, p *apiv1.Page) (*registryv1.ListServersResponse, error) {
			return cli.Call[*registryv1.ListServersResponse](ctx, env, &registryv1.ListServersRequest{Page: p})
		},
	)
	if err != nil {
		return nil // names are optional; ids replace them
	}
	return r.GetServers()
}

const (
	// Up to askedSingly servers are requested one by one, askedAtOnce of them concurrently; beyond that the whole list
	// is read.
	askedSingly = 100
	askedAtOnce = 16
)

// ServerNames returns the names of the tasks' servers by id. A server that is not found has an empty name.
func ServerNames(ctx context.Context, env *cli.Env, tasks []display.Task) map[string]string {
	names := map[string]string{}
	for _, t := range tasks {
		names[t.GetServerId()] = ""
	}
	if len(names) > askedSingly {
		for _, found := range Servers(ctx, env) {
			names[found.GetId()] = found.GetName()
		}
		return names
	}
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(askedAtOnce)
	for _, id := range slices.Collect(maps.Keys(names)) {
		g.Go(func() error {
			if found, err := Server(ctx, env, id); err == nil {
				mu.Lock()
				defer mu.Unlock()
				names[id] = found.GetName()
			}
			return nil
		})
	}
	_ = g.Wait() // a server that is not found has no name
	return names
}
