package task

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/ident"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/selector"
)

func listCommand(env *cli.Env) *cobra.Command {
	var page cli.PageFlags
	var server, rollout string
	var on selector.Flags
	q := &dispatcherv1.ListTasksRequest{}
	c := &cobra.Command{
		Use:     "list",
		Example: "  garrison task list --on env=prod --state failed,undone",
		Short:   "List tasks, the newest first.", Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			some, err := narrow(c.Context(), env, q, server, &on)
			if err == nil && !some {
				env.Say("no server matches --on, so there is no task to list: garrison server list")
			}
			if err == nil && q.IntentId != "" {
				q.IntentId, err = fleet.WholeIntent(c.Context(), env, q.IntentId)
			}
			if err == nil && some && rollout != "" {
				some, err = ofRollout(c.Context(), env, q, rollout)
			}
			switch {
			case err != nil:
				return err
			case !some:
				return show(c.Context(), env, &dispatcherv1.ListTasksResponse{}, nil)
			}
			return list(c.Context(), env, page, q)
		},
	}
	page.Add(c, 100)
	cli.TextVar(c.Flags(), &q.IntentId, "intent", cli.IDPrefix("an intent"), "only tasks of this `INTENT`")
	cli.TextVar(c.Flags(), &rollout, "rollout", cli.IDPrefix("a rollout"), "only tasks of this `ROLLOUT`")
	cli.TextVar(c.Flags(), &server, "server", cli.ServerName, "only tasks on this `SERVER`")
	on.Add(c)
	cli.TextVar(c.Flags(), &q.Agent, "agent", cli.Name("agent"), "only tasks of this `AGENT`")
	cli.WordsVar(c.Flags(), &q.States, "state", "only those in these `STATES`")
	c.Flags().BoolVar(&q.Slow, "slow", false, "only those at their step for more than three times its median")
	return c
}

// mostServers and mostIntents are how many servers and intents the task-dispatcher takes in a filter.
const mostServers, mostIntents = 10_000, 10_000

// ofRollout sets the intents of a request to those that a rollout led to, and reports whether there are some. The
// ledger holds them all.
func ofRollout(
	ctx context.Context, env *cli.Env, q *dispatcherv1.ListTasksRequest, word string,
) (some bool, err error) {
	id := word
	if !ident.IsUUID(word) {
		if id, err = fleet.RolloutID(ctx, env, word); err != nil {
			return false, err
		}
	}
	c, err := env.Client(ctx)
	if err != nil {
		return false, err
	}
	q.IntentIds, err = fleet.Derived(ctx, c, func(rollout string) bool { return rollout == id })
	switch n := len(q.IntentIds); {
	case err != nil:
		return false, err
	case n > mostIntents:
		return false, cli.Usage("--rollout: it led to %d intents; a list of tasks takes %d at most. Try: garrison "+
			"events --noun task --id %s", n, mostIntents, id)
	case n == 0:
		if _, err := fleet.RolloutID(ctx, env, id); err != nil {
			return false, err
		}
		env.Say("the rollout changed no server yet: garrison rollout show %s", ident.Handle(id))
	}
	return len(q.IntentIds) > 0, nil
}

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
		cli.Ask[*registryv1.ListServersResponse](env, &registryv1.ListServersRequest{On: on}))
	switch n := len(found.GetServers()); {
	case err != nil:
		return false, err
	case n > mostServers:
		return false, cli.Usage("--on: more than %d servers match, which are too many for a list of tasks. Try: "+
			"--agent AGENT without --on", mostServers)
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
	if len(whole.GetTasks()) == 0 && q.IntentId != "" {
		sayRollout(ctx, env, q.IntentId)
	}
	cli.SayMore(env, whole)
	if n := whole.GetKeptEnded(); n > 0 && whole.GetNextCursor() == "" {
		env.Say("the last %d succeeded tasks and the last %d others are kept; "+
			"older ones are in the ledger: garrison events --noun task", n, n)
	}
	return nil
}

// sayRollout names the command for the tasks of an intent that is a rollout, which has none of its own.
func sayRollout(ctx context.Context, env *cli.Env, intent string) {
	if r, err := fleet.Intent(ctx, env, intent, 0); err == nil && r.GetIntent().GetRollout() != nil {
		env.Say("this intent is a rollout: %s", display.TasksOf(r))
	}
}

// show prints tasks with the names of their servers.
func show(ctx context.Context, env *cli.Env, whole any, tasks []display.Task) error {
	v := env.Output.View()
	if env.Output.IsTable() {
		v.Names = fleet.ServerNames(ctx, env, tasks)
	}
	return output.ShowIn(env.Output, v, display.Tasks, whole, tasks)
}
