package explain

import (
	"context"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/display"
)

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
