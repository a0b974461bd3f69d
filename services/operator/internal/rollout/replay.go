package rollout

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/client"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

func replayCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "replay ROLLOUT", Example: "  garrison rollout replay 1a2b3c4d",
		Short: "Make every decision about a rollout again from the ledger, and compare.",
		Long: `Make every recorded decision about a rollout again, from the facts of the ledger before it, and compare.

Exits with 3 when a decision comes out differently.`,
		Args: cli.Exactly("ROLLOUT"), PreRunE: cli.Prints(env, display.RolloutReplay),
		RunE: func(c *cobra.Command, a []string) error {
			r, err := replayed(c.Context(), env, a[0])
			if err != nil {
				return err
			}
			if err := output.Show(env.Output, display.RolloutReplay, r, r.GetDecisions()); err != nil {
				return err
			}
			env.Say("%d of %s came out the same", r.GetSame(), output.Plural(int(r.GetRecorded()), "decision"))
			if left := int(r.GetRecorded()) - len(r.GetDecisions()); left > 0 {
				env.Say("%s the same and not listed", output.Plural(left, "more decision"))
			}
			if r.GetSame() != r.GetRecorded() {
				return cli.Ended(cli.ExitDifferent)
			}
			return nil
		},
	}
}

// sayReading is how often it is printed how far the ledger is read.
const sayReading = 10 * time.Second

// replayed returns the replay of a rollout once the registry has read the ledger.
func replayed(ctx context.Context, env *cli.Env, rollout string) (*registryv1.ReplayRolloutResponse, error) {
	q := &registryv1.ReplayRolloutRequest{RolloutId: rollout, Poll: true}
	for said := time.Now(); ; {
		r, err := cli.Call[*registryv1.ReplayRolloutResponse](ctx, env, q)
		if err != nil || r.GetReadUntil() == 0 {
			return r, err
		}
		if time.Since(said) >= sayReading && r.GetRead() > 0 { // 0 while a forecast is computed first
			said = time.Now()
			env.Say("the ledger is read up to fact %d of %d", r.GetRead(), r.GetReadUntil())
		}
	}
}

func forecastCommand(env *cli.Env) *cobra.Command {
	var q asked
	f := &registryv1.ForecastRolloutRequest{}
	c := &cobra.Command{
		Use: "forecast [AGENT[@VERSION|@IMAGE|@CHANNEL]]… [--configure AGENT]… | --all [--exclude AGENT]… " +
			"--on SELECTOR",
		Short: "Estimate how a rollout would go, from what tasks took and how many failed; change nothing.",
		Long: `Run a rollout many times on a model of the fleet, with the durations and failures of the last 7 days.

The same engine decides as in production. With --broken 20, the new version breaks 20 of 1,000 servers, half of them in
the health check and half within minutes after it: the forecast then shows how many servers it reaches before the
rollout halts.`,
		Example: "  garrison rollout forecast beacon@1.1.0 --on all --canaries 3 --waves 10%,50% --soak 5m\n" +
			"  garrison rollout forecast beacon@1.1.0 --on all --waves 10% --broken 20",
		PreRunE: cli.Prints(env, display.RolloutForecast),
		RunE: func(c *cobra.Command, a []string) error {
			ask, err := q.request(c.Context(), env, a)
			if err != nil {
				return err
			}
			p, err := cli.Call[*registryv1.PlanRolloutResponse](c.Context(), env, ask)
			if err != nil {
				return err
			}
			sayPlan(env, p)
			if p.GetRefusal() != nil {
				return client.Refused(p.GetRefusal())
			}
			f.Intent = p.GetIntent()
			r, err := cli.Call[*registryv1.ForecastRolloutResponse](c.Context(), env, f)
			if err != nil {
				return err
			}
			figures := display.ForecastPairs(r)
			return output.ShowOne(env.Output, env.Output.View(), display.RolloutForecast, r, figures...)
		},
	}
	q.add(c)
	countVar(c.Flags(), &f.Runs, "runs", "do this many `RUNS`, at most 1,000; large fleets get fewer (default 100)")
	countVar(c.Flags(), &f.BrokenPermille, "broken", "assume that the new version breaks `N` of 1,000 servers")
	return c
}
