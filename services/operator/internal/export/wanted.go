package export

import (
	"cmp"
	"context"
	"slices"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
)

// mostGroups is how many groups a count returns at most.
const mostGroups = 1000

// addWanted adds to a set what all servers of each environment want alike, and says what they do not.
func addWanted(ctx context.Context, env *cli.Env, set *declare.Set) error {
	for _, o := range set.Objects {
		if o.Kind != declare.Environments {
			continue
		}
		agents, err := wantedOf(ctx, env, o.Name)
		if err != nil {
			return err
		}
		if len(agents) > 0 {
			set.Wanted = append(set.Wanted, declare.Wanted{Environment: o.Name, Agents: agents})
		}
	}
	return nil
}

// wantedOf returns the agents that all servers of an environment want in the same version, by name.
func wantedOf(ctx context.Context, env *cli.Env, environment string) (out []declare.WantedAgent, err error) {
	servers, err := cli.Call[*registryv1.CountServersResponse](ctx, env, &registryv1.CountServersRequest{
		Filter: &registryv1.ListServersRequest{Environment: environment, Life: serverv1.Life_LIFE_ALIVE},
	})
	if err != nil {
		return nil, err
	}
	r, err := cli.Call[*registryv1.CountInstancesResponse](ctx, env, &registryv1.CountInstancesRequest{
		Filter: &registryv1.ListInstancesRequest{Environment: environment}, By: []string{"agent", "wanted-version"},
		Top: mostGroups,
	})
	if err != nil {
		return nil, err
	}
	said := map[string]bool{}
	for _, g := range r.GetCounts().GetGroups() {
		agent, version := g.GetValues()[0], g.GetValues()[1]
		switch {
		case version == "": // it leaves
		case g.GetCount() == servers.GetCounts().GetTotal():
			choice := &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: version}}
			out = append(out, declare.WantedAgent{Agent: agent, Image: choice})
		case !said[agent]:
			said[agent] = true
			env.Say("note: %s is not written: the servers of environment %s do not all want the same version", agent,
				environment)
		}
	}
	slices.SortFunc(out, func(a, b declare.WantedAgent) int { return cmp.Compare(a.Agent, b.Agent) })
	return out, nil
}
