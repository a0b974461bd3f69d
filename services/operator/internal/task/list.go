package task

import (
	"context"

	"github.com/spf13/cobra"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

func listCommand(env *cli.Env) *cobra.Command {
	var page cli.PageFlags
	var on string
	q := &dispatcherv1.ListTasksRequest{}
	c := &cobra.Command{
		Use:     "list",
		Example: "  garrison task list --server web-1 --state failed,undone",
		Short:   "List tasks, the newest first.", Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return list(c.Context(), env, page, q, on) },
	}
	page.Add(c, 100)
	cli.TextVar(c.Flags(), &q.IntentId, "intent", cli.ID("intent"), "only tasks of this intent, by `ID`")
	cli.TextVar(c.Flags(), &on, "server", cli.ServerName, "only tasks on this `SERVER`")
	cli.TextVar(c.Flags(), &q.Agent, "agent", cli.Name("agent"), "only tasks of this `AGENT`")
	cli.WordsVar(c.Flags(), &q.States, "state", "only those in these `STATES`")
	return c
}

func list(ctx context.Context, env *cli.Env, page cli.PageFlags, q *dispatcherv1.ListTasksRequest, on string) error {
	if on != "" {
		found, err := fleet.Server(ctx, env, on)
		if err != nil {
			return err
		}
		q.ServerId = found.GetId()
	}
	whole, err := fleet.Tasks(ctx, env, page, q)
	if err != nil {
		return err
	}
	if err := show(ctx, env, whole, whole.GetTasks()); err != nil {
		return err
	}
	cli.SayMore(env, whole)
	if n := whole.GetKeptEnded(); n > 0 && whole.GetNextCursor() == "" {
		env.Say("the last %d succeeded tasks and the last %d others are kept; "+
			"older ones are in the ledger: garrison events --noun task", n, n)
	}
	return nil
}

// show prints tasks with the names of their servers.
func show(ctx context.Context, env *cli.Env, whole any, tasks []display.Task) error {
	v := env.Output.View()
	if env.Output.IsTable() {
		v.Names = fleet.ServerNames(ctx, env, tasks)
	}
	return output.ShowIn(env.Output, v, display.Tasks, whole, tasks)
}
