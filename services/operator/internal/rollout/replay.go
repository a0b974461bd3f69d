package rollout

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// showReplay makes every recorded decision about a rollout again, from the facts of the ledger before it, and prints
// the comparison. It ends with exit code 3 when a decision comes out differently.
func showReplay(ctx context.Context, env *cli.Env, rollout string) error {
	r, err := replayed(ctx, env, rollout)
	if err != nil {
		return err
	}
	if err := output.Show(env.Output, display.RolloutReplay, r, r.GetDecisions()); err != nil {
		return err
	}
	env.Say("%d of %s came out the same", r.GetSame(), listing.Plural(int(r.GetRecorded()), "decision"))
	if left := int(r.GetRecorded()) - len(r.GetDecisions()); left > 0 {
		env.Say("%s the same and not listed", listing.Plural(left, "more decision"))
	}
	if r.GetSame() != r.GetRecorded() {
		return cli.Ended(cli.ExitDifferent)
	}
	return nil
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

// forecastFlags are the flags with which a plan is run on a model of the fleet, in place of its list of servers.
type forecastFlags struct{ runs, broken uint32 }

func (f *forecastFlags) add(c *cobra.Command) {
	countVar(c.Flags(), &f.runs, "runs", "in place of the servers, show how this many `RUNS` would go, at most 1,000; "+
		"large fleets get fewer")
	countVar(c.Flags(), &f.broken, "broken", "as --runs 100, where the new version breaks `N` of 1,000 servers")
}

func (f *forecastFlags) given() bool { return f.runs+f.broken > 0 }

// show prints how a planned rollout would go.
func (f *forecastFlags) show(ctx context.Context, env *cli.Env, p *registryv1.PlanRolloutResponse) error {
	r, err := cli.Call[*registryv1.ForecastRolloutResponse](ctx, env, &registryv1.ForecastRolloutRequest{
		Intent: p.GetIntent(), Runs: f.runs, BrokenPermille: f.broken,
	})
	if err != nil {
		return err
	}
	return output.ShowOne(env.Output, env.Output.View(), display.RolloutForecast, r, display.ForecastPairs(r)...)
}
