// Package rollout holds the commands about rollouts: changes that reach servers in waves.
//
//  1. The plan is the registry's answer. Nothing of it is computed here.
//  2. A rollout that was planned is done exactly so, or refused with the exit code 8.
//  3. Leaving the view never stops the rollout; how to return, to pause and to undo is printed.
package rollout

import (
	"context"
	"maps"

	"github.com/spf13/cobra"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// Commands returns the command rollout with its verbs.
func Commands(env *cli.Env) *cobra.Command {
	return cli.Group("rollout", "Change servers in waves that stop by themselves and can be undone.",
		planCommand(env), startCommand(env), listCommand(env), showCommand(env),
		pauseCommand(env), resumeCommand(env), approveCommand(env), rejectCommand(env), abortCommand(env))
}

func listCommand(env *cli.Env) *cobra.Command {
	var page cli.PageFlags
	q := &registryv1.ListRolloutsRequest{}
	c := &cobra.Command{
		Use: "list", Example: "  garrison rollout list --state running",
		Short: "List rollouts, the newest first.", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			waits := map[string]*registryv1.RolloutWait{}
			table := display.RolloutsWaiting(func(r display.Rollout) string { return waits[r.GetId()].GetText() })
			return cli.List(c.Context(), env, page, table,
				func(ctx context.Context, p *apiv1.Page) (*registryv1.ListRolloutsResponse, error) {
					q.Page = p
					r, err := cli.Call[*registryv1.ListRolloutsResponse](ctx, env, q)
					maps.Copy(waits, r.GetWaits())
					return r, err
				})
		},
	}
	page.Add(c, 50)
	cli.WordsVar(c.Flags(), &q.States, "state", "only rollouts in one of these `STATES`, separated by commas")
	cli.TextVar(c.Flags(), &q.Agent, "agent", cli.Name("agent"), "only rollouts that change this `AGENT`")
	c.Flags().BoolVar(&q.Owing, "owing", false, "only rollouts that owe servers their change: those get it when "+
		"they are back")
	return c
}

func showCommand(env *cli.Env) *cobra.Command {
	var t targets
	var replay bool
	c := &cobra.Command{
		Use: "show ROLLOUT",
		Example: "  garrison rollout show 1a2b3c4d\n" +
			"  garrison rollout show 1a2b3c4d --servers --state broken\n" +
			"  garrison rollout show 1a2b3c4d --replay",
		Short: "Show a rollout: its waves, what it waits for, and why servers are not as they should be.",
		Args:  cli.Exactly("ROLLOUT"),
		RunE: func(c *cobra.Command, a []string) error {
			if t.servers {
				return t.list(c, env, a[0])
			}
			for _, name := range []string{"state", "wave", "limit", "cursor"} {
				if c.Flags().Changed(name) {
					return cli.Usage("--%s requires --servers", name)
				}
			}
			if replay {
				return showReplay(c.Context(), env, a[0])
			}
			if err := cli.Prints(env, display.Rollouts)(c, a); err != nil {
				return err
			}
			r, err := getAhead(c.Context(), env, a[0])
			if err != nil {
				return err
			}
			findSlow(c.Context(), env, r)
			return showPage(c.Context(), env, r)
		},
	}
	t.add(c)
	c.Flags().BoolVar(&replay, "replay", false, "make every decision about it again from the ledger, and compare; "+
		"exit with 3 when one comes out differently")
	c.MarkFlagsMutuallyExclusive("replay", "servers")
	return c
}

// targets are the flags that list the servers of a rollout.
type targets struct {
	servers bool
	page    cli.PageFlags
	wave    uint32
	q       registryv1.ListRolloutTargetsRequest
}

func (t *targets) add(c *cobra.Command) {
	c.Flags().BoolVar(&t.servers, "servers", false, "list its servers instead, with the state of each")
	t.page.Add(c, 100)
	cli.WordsVar(c.Flags(), &t.q.States, "state", "with --servers: only those in these `STATES`; reached are those "+
		"whose change is queued, assigned, running, deferred or observing")
	countVar(c.Flags(), &t.wave, "wave", "with --servers: only servers of this `WAVE`; 0: servers that are owed from "+
		"the start")
}

func (t *targets) list(c *cobra.Command, env *cli.Env, rollout string) error {
	t.q.RolloutId = rollout
	if c.Flags().Changed("wave") {
		t.q.Wave = &t.wave
	}
	return cli.List(c.Context(), env, t.page, display.RolloutTargets,
		cli.Ask[*registryv1.ListRolloutTargetsResponse](env, &t.q))
}

func get(ctx context.Context, env *cli.Env, id string) (*registryv1.GetRolloutResponse, error) {
	return cli.Call[*registryv1.GetRolloutResponse](ctx, env, &registryv1.GetRolloutRequest{RolloutId: id})
}

// getAhead returns a rollout with how long it goes on.
func getAhead(ctx context.Context, env *cli.Env, id string) (*registryv1.GetRolloutResponse, error) {
	return cli.Call[*registryv1.GetRolloutResponse](ctx, env,
		&registryv1.GetRolloutRequest{RolloutId: id, Forecast: true})
}

// showPage prints the page of a rollout.
func showPage(ctx context.Context, env *cli.Env, r *registryv1.GetRolloutResponse) error {
	view := env.Output.View()
	return output.ShowOne(env.Output, view, display.RolloutPage(r), r.GetRollout(),
		display.RolloutPairs(view, r, undoOf(ctx, env, r.GetRollout()))...)
}

// undoOf returns the rollout that undoes another one; nil when no rollout does, or it ended too long ago to be
// kept.
func undoOf(ctx context.Context, env *cli.Env, r display.Rollout) display.Rollout {
	if r.GetUndoneBy() == "" {
		return nil
	}
	undo, err := get(ctx, env, r.GetUndoneBy())
	if err != nil {
		return nil
	}
	return undo.GetRollout()
}
