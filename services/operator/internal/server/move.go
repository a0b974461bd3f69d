package server

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/noun/environment"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/selector"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

func moveCommand(env *cli.Env) *cobra.Command {
	var f work.DefaultsFlags
	var on selector.Flags
	q := &registryv1.MoveServersRequest{}
	c := &cobra.Command{
		Use:   "move [SERVER]… --env ENVIRONMENT",
		Short: "Move servers to another environment; they get the agents that it wants and keep theirs.",
		Example: "  garrison server move web-1 web-2 --env prod\n" +
			"  garrison server move --on env=test --env none",
		RunE: func(c *cobra.Command, a []string) (err error) {
			if q.Environment == "" {
				return cli.Usage("--env is missing. Try: garrison server move SERVER --env ENVIRONMENT, or --env none")
			}
			if len(a) > 0 {
				on.On = append(on.On, strings.Join(a, ","))
			}
			if q.On, err = on.Selector(); err != nil {
				return err
			}
			if q.Environment == environment.None {
				q.Environment = ""
			}
			return move(c.Context(), env, f, q)
		},
	}
	cli.TextVar(c.Flags(), &q.Environment, "env", cli.Name("environment"), "the `ENVIRONMENT` to move to, or none")
	c.Flags().BoolVar(&q.AtOnce, "at-once", false, "also when the environment's defaults install agents on more than "+
		"100 of the servers, or it heals more than 100, at once and without waves")
	on.Add(c)
	f.Add(c)
	return c
}

// move shows what the environment would install on the servers, asks, and moves them.
func move(ctx context.Context, env *cli.Env, f work.DefaultsFlags, q *registryv1.MoveServersRequest) error {
	to := "environment " + q.GetEnvironment()
	if q.GetEnvironment() == "" {
		to = "no environment"
	}
	return work.ProposeDefaults(ctx, env, f, work.Defaults{
		Ask:      &registryv1.PlanDefaultsRequest{Ask: &registryv1.PlanDefaultsRequest_Move{Move: q}},
		Question: "Move to " + to + "?",
		Summary: func(r *registryv1.PlanDefaultsResponse) string {
			now, waiting := work.Installs(r.GetPlans())
			return fmt.Sprintf("%s would move to %s%s, with all their agents; by its defaults, agents that would be "+
				"installed: %d; that would wait: %d; that are there already: %d",
				output.Plural(int(r.GetServers()), "server"), to, thereText(r.GetAlready()), now, waiting,
				r.GetPresent())
		},
		Do: func(ctx context.Context, sum []byte) error {
			q = proto.CloneOf(q)
			q.PlanSha256 = sum
			r, err := cli.Call[*registryv1.MoveServersResponse](ctx, env, q)
			if err == nil {
				env.Say("%s moved to %s%s", output.Plural(int(r.GetMoved()), "server"), to, thereText(r.GetAlready()))
			}
			return err
		},
	})
}

// thereText returns how many servers need not move, or nothing.
func thereText(n uint32) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d there already)", n)
}
