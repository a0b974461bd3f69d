package work

import (
	"context"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/watch"
)

// Publish publishes an intent that needs no plan, prints the decision, and watches until the end. A dry run publishes
// nothing: it shows the plan, with exit code 3 when an agent would change.
func Publish(ctx context.Context, env *cli.Env, w Flags, o watch.Order) error {
	if w.DryRun {
		return Propose(ctx, env, w, Proposal{
			Verb: o.Verb, Asks: []*registryv1.PlanIntentRequest{{Intent: o.Intent}},
			Differs: o.Intent.GetRefresh() == nil,
		})
	}
	if err := printsWork(env, w); err != nil {
		return err
	}
	o.Intent.Strict, o.Intent.Override = w.Strict, w.Override
	if err := decide(ctx, env, &o); err != nil {
		return err
	}
	env.Say("%s", decidedText(o))
	return followWork(ctx, env, w, []watch.Order{o})
}

// followWork watches accepted intents; with --detach it prints how to return to them.
func followWork(ctx context.Context, env *cli.Env, w Flags, orders []watch.Order) error {
	if !w.Detach {
		return watch.Follow(ctx, env, watch.Options{Timeout: w.Timeout}, orders)
	}
	for _, o := range orders {
		env.Say("to return: garrison watch %s", o.Id)
		watch.SayUndo(env, o)
	}
	return showRecords(env, orders)
}

func showRecords(env *cli.Env, orders []watch.Order) error {
	records := make([]display.Record, len(orders))
	for i, o := range orders {
		records[i] = o.Record
	}
	if len(records) == 1 && !env.Output.IsTable() {
		return output.ShowOne(env.Output, env.Output.View(), display.Records, records[0])
	}
	return output.Show(env.Output, display.Records, records, records)
}
