package server

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

func reinstallCommand(env *cli.Env) *cobra.Command {
	var w work.Flags
	c := &cobra.Command{
		Use:     "reinstall SERVER…",
		Example: "  garrison server reinstall web-1",
		Short:   "Empty servers, and install the defaults of their environment as on new ones.",
		Long: `Empty servers, and install the defaults of their environment as on new ones. Every agent is removed with
its files, and so is what the executor keeps of replaced versions. The servers keep their ids, names, labels,
environment and credentials. What was installed by hand does not come back.

A server that is offline is emptied when it comes back, also when its machine was set up anew meanwhile with the same
identity. No agent can be installed on a server until it is empty. Repeated, the command requests again the removals
that failed. To put another machine in the place of a server: garrison server replace.`,
		SuggestFor: []string{"reset", "factory-reset", "reimage"},
		Args: func(c *cobra.Command, a []string) error {
			return cli.Exactly("SERVER")(c, a[:min(1, len(a))]) // one or more
		},
		RunE: func(c *cobra.Command, a []string) error { return reinstall(c.Context(), env, w, a) },
	}
	w.Add(c, false)
	w.AddYes(c)
	c.Flags().BoolVar(&w.AtOnce, "at-once", false, "empty more than 100 servers at once")
	return c
}

// reinstall shows what is removed from each server and what comes back, and asks for all of them.
func reinstall(ctx context.Context, env *cli.Env, w work.Flags, names []string) error {
	if err := work.CheckWidth("empty", len(names), w.AtOnce); err != nil {
		return err
	}
	p := work.Proposal{Verb: topology.VerbReinstall, Question: "Remove every agent"}
	for _, name := range names {
		found, err := fleet.Server(ctx, env, name)
		if err != nil {
			return err
		}
		line, err := reinstallLine(ctx, env, found)
		if err != nil {
			return err
		}
		env.Say("%s", line)
		p.Asks = append(p.Asks, &registryv1.PlanIntentRequest{Intent: &intentv1.Intent{
			Ask: &intentv1.Intent_Reinstall{Reinstall: &intentv1.Reinstall{Server: found.GetId()}},
		}})
	}
	return work.Propose(ctx, env, w, p)
}

// reinstallLine describes what a reinstall removes from a server, and what its environment installs there.
func reinstallLine(ctx context.Context, env *cli.Env, found display.Server) (string, error) {
	instances, err := fleet.Instances(ctx, env, &registryv1.ListInstancesRequest{Server: found.GetId()})
	if err != nil {
		return "", err
	}
	line := fmt.Sprintf("server %s (%s): %s to remove", found.GetName(), display.ServerState(found),
		output.Plural(len(instances), "agent"))
	if found.GetEnvironment() == "" {
		return line + "; it is in no environment, so nothing is installed then", nil
	}
	q := &registryv1.ListDefaultsRequest{Server: found.GetId()}
	r, err := cli.Call[*registryv1.ListDefaultsResponse](ctx, env, q)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s; then the defaults of environment %s (%d) are installed", line, found.GetEnvironment(),
		len(r.GetDefaults())), nil
}
