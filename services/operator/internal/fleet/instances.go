package fleet

import (
	"context"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/display"
)

// Instances returns every instance that matches a request.
func Instances(ctx context.Context, env *cli.Env, q *registryv1.ListInstancesRequest) ([]display.Instance, error) {
	r, err := cli.Collect(
		ctx,
		cli.PageFlags{},
		func(ctx context.Context, p *apiv1.Page) (*registryv1.ListInstancesResponse, error) {
			q.Page = p
			return cli.Call[*registryv1.ListInstancesResponse](ctx, env, q)
		},
	)
	return r.GetInstances(), err
}
