package task

import (
	"context"

	"github.com/spf13/cobra"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/selector"
)

func listCommand(env *cli.Env) *cobra.Command {
	var page cli.PageFlags
	var server string
	var on selector.Flags
	q := &dispatcherv1.ListTasksRequest{}
	c := &cobra.Command{
		Use:     "list",
		Example: "  garrison task list --on env=prod --state failed,undone",
		Short:   "List tasks, the newest first.", Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			some, err := narrow(c.Context(), env, q, server, &on)
			switch {
			case err != nil:
				return err
			case !some:
				env.Say("no server matches --on, so there is no task to list: garrison server list")
				return show(c.Context(), env, &dispatcherv1.ListTasksResponse{}, nil)
			}
			return list(c.Context(), env, page, q)
		},
	}
	page.Add(c, 100)
	cli.TextVar(c.Flags(), &q.IntentId, "intent", cli.ID("intent"), "only tasks of this intent, by `ID`")
	cli.TextVar(c.Flags(), &server, "server", cli.ServerName, "only tasks on this `SERVER`")
	on.Add(c)
	cli.TextVar(c.Flags(), &q.Agent, "agent", cli.Name("agent"), "only tasks of this `AGENT`")
	cli.WordsVar(c.Flags(), &q.States, "state", "only those in these `STATES`")
	c.Flags().BoolVar(&q.Slow, "slow", false, "only those at their step for more than three times its median")
	return c
}

// mostServers is how many servers the task-dispatcher takes in a filter.
const mostServers = 10_000

// narrow sets the servers of a request, and reports whether there are some. The registry, which knows names and labels,
// resolves the selector; the task-dispatcher filters by the servers.
func narrow(
	ctx context.Context, env *cli.Env, q *dispatcherv1.ListTasksRequest, server string, servers *selector.Flags,
) (some bool, err error) {
	if server != "" {
		found, err := fleet.Server(ctx, env, server)
		if err != nil {
			return false, err
		}
		q.ServerId = found.GetId()
	}
	on, err := servers.Filter()
	if err != nil || on == nil {
		return true, err
	}
	found, err := cli.Collect(ctx, cli.PageFlags{Limit: mostServers + 1},
		func(ctx context.Context, p *apiv1.Page) (*registryv1.ListServersResponse, error) {
			return cli.Call[*registryv1.ListServersResponse](ctx, env, &registryv1.ListServersRequest{Page: p, On: on})
		})
	switch n := len(found.GetServers()); {
	case err != nil:
		return false, err
	case n > mostServers:
		return false, cli.Usage("--on: more than %d servers match, which are too many for a list of tasks. Try: fewer "+
			"servers, or --agent, --intent or --state without --on", mostServers)
	}
	for _, s := range found.GetServers() {
		q.ServerIds = append(q.ServerIds, s.GetId())
	}
	return len(q.ServerIds) > 0, nil
}

func list(ctx context.Context, env *cli.Env, page cli.PageFlags, q *dispatcherv1.ListTasksRequest) error {
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
