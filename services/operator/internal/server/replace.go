package server

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	"github.com/garrison-fleet/garrison/pkg/topology"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

// replaceWith replaces the machine of a server. It refuses the flags that a known server has values for.
func replaceWith(
	c *cobra.Command, env *cli.Env, q *registryv1.ReplaceServerRequest, like *registryv1.InviteServerRequest,
	names []string, file string,
) error {
	for _, name := range []string{"from", "pooled", "out", "label", "env", "id", "cell", "provisioned"} {
		if c.Flags().Changed(name) {
			return cli.Usage("--replace and --%s exclude each other", name)
		}
	}
	yes, _ := c.Flags().GetBool("yes")
	q.Server, q.ValidFor, q.Reason = names[0], like.GetValidFor(), c.Flags().Lookup("message").Value.String()
	return replace(c.Context(), env, q, file, yes)
}

// replace shows what it will do, voids the credentials of the old machine and prints the token for the new one.
func replace(ctx context.Context, env *cli.Env, q *registryv1.ReplaceServerRequest, file string, yes bool) error {
	target, err := reserveNew(file)
	if err != nil {
		return err
	}
	defer target.Discard()
	found, err := fleet.Server(ctx, env, q.GetServer())
	if err != nil {
		return err
	}
	wanted, err := fleet.Instances(ctx, env, &registryv1.ListInstancesRequest{Server: found.GetId()})
	if err != nil {
		return err
	}
	sayReplaced(env, found, len(wanted))
	if err := replaceable(found, q.GetForce()); err != nil || env.DryRun {
		return err
	}
	if err := env.Confirm(ctx, yes, "Replace the machine of "+found.GetName()+"?"); err != nil {
		return err
	}
	q.Server = found.GetId()
	r, err := cli.Call[*registryv1.ReplaceServerResponse](ctx, env, q)
	if err != nil {
		return err
	}
	env.Say("a new machine may join as %s until %s; on it, as root: executor join --token-file FILE", found.GetName(),
		listing.Stamp(r.GetExpiresAt()))
	return target.KeepOrShow(env, r, r.GetToken())
}

// replaceable refuses to replace a machine that is online, as the registry does, before anything is asked.
func replaceable(found display.Server, force bool) error {
	if force || found.GetPresence() != serverv1.Presence_PRESENCE_ONLINE || !server.Believed(found) {
		return nil
	}
	return fault.Refusef(fault.Conflict, code.ServerOnline, "server %s (%s) is online: a replacement shuts it out",
		found.GetName(), found.GetId()).
		Try("garrison server enroll " + found.GetName() + " --replace --force")
}

// sayReplaced shows which machines are shut out, and what the one that joins gets.
func sayReplaced(env *cli.Env, found display.Server, wanted int) {
	agents := listing.Plural(wanted, "agent")
	machines := found.GetDuplicate().GetSightings()
	if len(machines) == 0 {
		env.Say("server %s (%s), %s: its machine (%s) is shut out and not touched; a new one takes its place and "+
			"gets %s", found.GetName(), found.GetId(), display.ServerState(found),
			listing.Dash(found.GetSysinfo().GetHostname()), agents)
		return
	}
	env.Say("server %s (%s), %s: these machines are shut out and not touched; the one that joins with the token is "+
		"the server again and has or gets %s:", found.GetName(), found.GetId(), display.ServerState(found), agents)
	env.Say("%s", display.SightingLines(env.Output.View(), machines))
}

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
that failed. To put another machine in the place of a server: garrison server enroll --replace.`,
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
		listing.Plural(len(instances), "agent"))
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
