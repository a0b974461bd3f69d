// Package work publishes intents: it shows the registry's plan, asks for confirmation, publishes exactly that plan,
// and watches.
//
//  1. The plan is the registry's answer. Nothing of it is computed here.
//  2. An intent carries the digest of the plan that was shown. When the fleet changed in between, nothing is done and
//     the exit code is 8.
//  3. An intent is published under a new id that is also its message id, so that a retry stores it once.
package work

import (
	"cmp"
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/watch"
)

// Publish publishes an intent that needs no plan, prints the decision, and watches until the end. A dry run publishes
// nothing: it shows the plan.
func Publish(ctx context.Context, env *cli.Env, w Flags, o watch.Order) error {
	if w.DryRun {
		return Propose(ctx, env, w, Proposal{
			Verb: o.Verb, Asks: []*registryv1.PlanIntentRequest{{Intent: o.Intent}},
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
		env.Say("to return: garrison watch %s", ident.Handle(o.Id))
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

// decide publishes an intent and waits for the registry's decision. A refusal is an error.
func decide(ctx context.Context, env *cli.Env, o *watch.Order) (err error) {
	o.Id, o.Record, err = env.Decide(ctx, o.Intent)
	if o.Record.GetState() == intentv1.State_STATE_REFUSED {
		return client.Refused(takenForChannel(o.Intent, o.Record.GetRefusal()))
	}
	return err
}

// decidedText describes the registry's decision.
func decidedText(o watch.Order) string {
	r := o.Record
	verb := "accepted: " + askText(o.Intent, o.Agent) + " changes "
	return verb + listing.Plural(int(r.GetChanged()), "server") +
		countsText(r.GetAlready(), r.GetPassedOver(), r.GetLeftOut()) + "; intent " + ident.Handle(o.Id)
}

// takenForChannel adds to a refusal that a word was parsed as a channel, for an operator who meant a version or the
// start of an image's id.
func takenForChannel(i *intentv1.Intent, r *apiv1.Refusal) *apiv1.Refusal {
	said := cmp.Or(i.GetInstall().GetImage().GetChannel(), i.GetUpgrade().GetImage().GetChannel())
	if r.GetCode() != code.UnknownChannel || said == "" {
		return r
	}
	agent := cmp.Or(i.GetInstall().GetAgent(), i.GetUpgrade().GetAgent())
	r = proto.CloneOf(r)
	r.Message += fmt.Sprintf(
		"; %q was parsed as a channel, since it is not a version such as 1.2.3 or the whole id of an image", said)
	r.Try = "garrison image list " + agent + " -o wide"
	return r
}
