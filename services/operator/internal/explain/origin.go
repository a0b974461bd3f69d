package explain

import (
	"context"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
)

// explainOrigin returns who wanted an instance as it is, and what the server lists of it.
func explainOrigin(ctx context.Context, env *cli.Env, i display.Instance) (rows []display.Explanation, err error) {
	if id := i.GetInstance().GetIntentId(); id != "" {
		by, err := fleet.Intent(ctx, env, id, 0)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return nil, err
		}
		rows = append(rows, display.ExplainWanted(env.Output.View(), i, by))
		source, err := explainSource(ctx, env, i, by)
		if err != nil {
			return nil, err
		}
		rows = append(rows, source...)
	}
	if i.GetInstance().GetObservedAt() != nil {
		rows = append(rows, display.ExplainObserved(env.Output.View(), i))
	}
	return rows, nil
}

// explainSource returns the default from which the intent of an instance follows: who set it, and when; or the rollout.
func explainSource(
	ctx context.Context, env *cli.Env, i display.Instance, by display.Record,
) (rows []display.Explanation, err error) {
	source := by.GetIntent().GetSource()
	if source == nil {
		return nil, nil
	}
	if id := source.GetRolloutId(); id != "" {
		return []display.Explanation{display.ExplainRollout(env.Output.View(), id, by)}, nil
	}
	r, err := cli.Call[*registryv1.ListDefaultsResponse](ctx, env,
		&registryv1.ListDefaultsRequest{Environment: source.GetEnvironment()})
	if err != nil && !fault.Is(err, fault.NotFound) { // the environment may be gone
		return nil, err
	}
	for _, d := range r.GetDefaults() {
		if d.GetAgent() == i.GetInstance().GetAgent() {
			return []display.Explanation{display.ExplainSource(env.Output.View(), source, d)}, nil
		}
	}
	return []display.Explanation{display.ExplainSource(env.Output.View(), source, nil)}, nil
}

// maxDifferences bounds the differences of one server that are explained; garrison check lists all.
const maxDifferences = 100

// explainDifferences returns in what a server, or an agent on it, differs from what is wanted, and what cures it.
func explainDifferences(
	ctx context.Context, env *cli.Env, server display.Server, agent string,
) (rows []display.Explanation, err error) {
	r, err := cli.Call[*registryv1.CheckFleetResponse](ctx, env, &registryv1.CheckFleetRequest{
		On: &intentv1.Selector{Servers: []string{server.GetId()}}, Page: &apiv1.Page{Limit: maxDifferences},
	})
	if err != nil {
		return nil, err
	}
	for _, d := range r.GetDifferences() {
		if agent == "" || d.GetAgent() == agent || d.GetAgent() == "" {
			rows = append(rows, display.ExplainDifference(env.Output.View(), d))
		}
	}
	return rows, nil
}
