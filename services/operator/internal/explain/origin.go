package explain

import (
	"context"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/fault"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
)

// explainOrigin returns who wanted an instance as it is, and what the server lists of it.
func explainOrigin(ctx context.Context, env *cli.Env, i display.Instance) (rows []display.Explanation, err error) {
	if id := i.GetInstance().GetIntentId(); id != "" {
		by, err := fleet.Intent(ctx, env, id, 0)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return nil, err
		}
		rows = append(rows, display.ExplainWanted(i, by))
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
		return []display.Explanation{display.ExplainRollout(id, by)}, nil
	}
	r, err := cli.Call[*registryv1.ListDefaultsResponse](ctx, env,
		&registryv1.ListDefaultsRequest{Environment: source.GetEnvironment()})
	if err != nil && !fault.Is(err, fault.NotFound) { // the environment may be gone
		return nil, err
	}
	for _, d := range r.GetDefaults() {
		if d.GetAgent() == i.GetInstance().GetAgent() {
			return []display.Explanation{display.ExplainSource(source, d)}, nil
		}
	}
	return []display.Explanation{display.ExplainSource(source, nil)}, nil
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

// explainNewest returns the row of the image that an upgrade of an agent would bring to a server now, or an install
// where the agent is not wanted.
func explainNewest(
	ctx context.Context, env *cli.Env, server display.Server, agent string, wanted bool, defaults []display.Default,
) (rows []display.Explanation, err error) {
	if server.GetLife() != serverv1.Life_LIFE_ALIVE {
		return nil, nil
	}
	on, choice := &intentv1.Selector{Servers: []string{server.GetId()}}, followed(agent, defaults)
	ask := &intentv1.Intent{Ask: &intentv1.Intent_Install{
		Install: &intentv1.Install{Agent: agent, Image: choice, On: on},
	}}
	if wanted {
		ask.Ask = &intentv1.Intent_Upgrade{Upgrade: &intentv1.Upgrade{Agent: agent, Image: choice, On: on}}
	}
	r, err := cli.Call[*registryv1.PlanIntentResponse](ctx, env, &registryv1.PlanIntentRequest{Intent: ask})
	if fault.Is(err, fault.Unavailable) {
		return rows, nil // the rest answers what is asked
	}
	if err != nil {
		return nil, err
	}
	if row, ok := display.ExplainNewest(server, r, choice); ok {
		rows = append(rows, row)
	}
	return rows, nil
}

// followed returns the channel that an agent follows by a default of the server's environment, or nil: then it follows
// the channel of the environment.
func followed(agent string, defaults []display.Default) *intentv1.ImageChoice {
	for _, d := range defaults {
		if c := d.GetDefault().GetImage(); d.GetAgent() == agent && c.GetChannel() != "" {
			return c
		}
	}
	return nil
}
