package server

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/watch"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

func decommissionCommand(env *cli.Env) *cobra.Command {
	var w work.Flags
	var lost, force bool
	c := &cobra.Command{
		Use: "decommission [SERVER]…",
		Example: "  garrison server decommission web-1\n" +
			"  garrison server decommission --on rack=a1 --dry-run",
		Short: "Remove every agent from servers and retire them.",
		Args: func(c *cobra.Command, a []string) error {
			if len(a) == 0 && len(w.Servers.On) == 0 {
				return cli.Exactly("SERVER")(c, a)
			}
			return nil
		},
		SuggestFor: []string{"delete", "remove", "retire", "rm"},
		RunE: func(c *cobra.Command, a []string) error {
			if len(a) == 1 && len(w.Servers.On) == 0 {
				return decommission(c.Context(), env, w, a[0], lost, force)
			}
			if len(a) > 0 {
				w.Servers.On = append(w.Servers.On, strings.Join(a, ","))
			}
			return decommissionMany(c.Context(), env, w, &intentv1.Decommission{Lost: lost, Force: force})
		},
	}
	w.Add(c, true)
	w.AddYes(c)
	c.Flags().BoolVar(&lost, "lost", false, "the machine is lost: remove nothing from it and record it as dead at once")
	c.Flags().BoolVar(&force, "force", false, "with --lost: give the machine up although it still beats, and void its "+
		"credentials")
	return c
}

// decommissionMany shows which servers would go, asks, and retires them with one intent.
func decommissionMany(ctx context.Context, env *cli.Env, w work.Flags, ask *intentv1.Decommission) (err error) {
	if ask.On, err = w.Selector(); err != nil {
		return err
	}
	question := "Remove every agent and retire the server"
	if ask.GetLost() {
		question = "Give up the machine and record the server as dead"
	}
	return work.Propose(ctx, env, w, work.Proposal{
		Verb: topology.VerbDecommission, Question: question,
		Asks: []*registryv1.PlanIntentRequest{{Intent: &intentv1.Intent{
			Ask: &intentv1.Intent_Decommission{Decommission: ask},
		}}},
		Differs: true,
	})
}

func decommission(ctx context.Context, env *cli.Env, w work.Flags, name string, lost, force bool) error {
	if force && !lost {
		return cli.Usage("--force is for a machine that is lost. Try: garrison server decommission %s --lost --force",
			name)
	}
	found, err := fleet.Server(ctx, env, name)
	if err != nil {
		return err
	}
	if !w.DryRun {
		q := &registryv1.ListInstancesRequest{Server: found.GetId()}
		instances, err := fleet.Instances(ctx, env, q)
		if err != nil {
			return err
		}
		how := "to remove"
		if lost {
			how = "to give up"
		}
		if force {
			env.Say("its credentials are void from then on: its executor can neither remove its agents nor itself")
		}
		env.Say("server %s (%s): %s %s, then the server is dead", found.GetName(), display.ServerState(found),
			output.Plural(len(instances), "agent"), how)
		if display.FoundCount(found) > 0 {
			env.Say("unmanaged agents stay on it (%d): garrison explain %s", display.FoundCount(found), found.GetName())
		}
		if err := env.Confirm(ctx, w.Yes, "Decommission "+found.GetName()+"?"); err != nil {
			return err
		}
	}
	ask := &intentv1.Intent{
		Ask: &intentv1.Intent_Decommission{Decommission: &intentv1.Decommission{
			Server: found.GetId(), Lost: lost, Force: force,
		}},
	}
	without := "server " + found.GetName() + " is dead; it had no agent to remove"
	if lost {
		without = "server " + found.GetName() + " is recorded as dead; nothing was removed from it"
	}
	return work.Publish(ctx, env, w,
		watch.Order{Verb: topology.VerbDecommission, Intent: ask, Dying: found.GetId(), Without: without})
}
