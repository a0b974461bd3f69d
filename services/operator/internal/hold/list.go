package hold

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/record"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/selector"
)

func listCommand(env *cli.Env) *cobra.Command {
	var page cli.PageFlags
	var servers selector.Flags
	c := &cobra.Command{
		Use: "list [AGENT]", Example: "  garrison hold list --on env=prod",
		Short: "List the holds that are in effect, also those of environments.", Args: cli.AtMost("AGENT"),
		PreRunE: cli.Prints(env, display.Holds),
		RunE: func(c *cobra.Command, a []string) error {
			q := record.List(ledger.Hold)
			if len(a) > 0 {
				q.Agent = a[0]
			}
			var err error
			if q.On, err = servers.Filter(); err != nil {
				return err
			}
			return list(c.Context(), env, page, q)
		},
	}
	page.Add(c, 0)
	servers.Add(c)
	return c
}

// list lists holds, and behind the last of them the holds of environments, which cover every agent there.
func list(ctx context.Context, env *cli.Env, page cli.PageFlags, q *registryv1.ListRecordsRequest) error {
	whole, err := cli.Collect(ctx, page, cli.Ask[*registryv1.ListRecordsResponse](env, q))
	if err != nil {
		return err
	}
	if whole.GetNextCursor() == "" {
		held, err := ofEnvironments(ctx, env)
		if err != nil {
			return err
		}
		if of := q.GetOn(); of != nil {
			held = selected(env, held, of)
		}
		whole.Holds = append(whole.Holds, held...)
	}
	if err := output.Show(env.Output, display.Holds, whole, whole.GetHolds()); err != nil {
		return err
	}
	cli.SayMore(env, whole)
	cli.SayEmpty(env, len(whole.GetHolds()))
	return nil
}

// ofEnvironments returns the holds of environments that are in effect. They have no id;
// garrison unhold --env ends them.
func ofEnvironments(ctx context.Context, env *cli.Env) (out []*holdv1.Hold, err error) {
	all, err := cli.Records[*environmentv1.Environment](ctx, env, record.List(ledger.Environment))
	if err != nil {
		return nil, err
	}
	now := env.Now()
	for _, e := range all {
		for _, f := range e.GetFreezes() {
			if now.Before(f.GetFrom().AsTime()) || !now.Before(f.GetUntil().AsTime()) {
				continue
			}
			out = append(out, &holdv1.Hold{
				On: &intentv1.Selector{Environment: e.GetName()}, Until: f.GetUntil(), Reason: f.GetReason(),
				SetAt: f.GetFrom(),
			})
		}
	}
	return out, nil
}

// selected returns the holds of the environment that a selector names. Of another selector it says that they are left
// out: whether its servers are in a held environment, only the registry knows.
func selected(env *cli.Env, held []*holdv1.Hold, on *intentv1.Selector) (out []*holdv1.Hold) {
	for _, h := range held {
		if h.GetOn().GetEnvironment() == on.GetEnvironment() {
			out = append(out, h)
		}
	}
	if left := len(held) - len(out); left > 0 && on.GetEnvironment() == "" {
		env.Say("%s of environments left out: garrison hold list", listing.Plural(left, "hold"))
	}
	return out
}
