package fleet

import (
	"context"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// Agents returns all agents, by name.
func Agents(ctx context.Context, env *cli.Env) ([]*agentv1.Agent, error) {
	r, err := cli.Collect(ctx, cli.PageFlags{},
		func(ctx context.Context, p *apiv1.Page) (*registryv1.ListAgentsResponse, error) {
			return cli.Call[*registryv1.ListAgentsResponse](ctx, env, &registryv1.ListAgentsRequest{Page: p})
		})
	return r.GetAgents(), err
}
