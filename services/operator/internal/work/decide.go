package work

import (
	"context"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/pkg/client"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/watch"
)

// decide publishes an intent and waits for the registry's decision. A refusal is an error.
func decide(ctx context.Context, env *cli.Env, o *watch.Order) (err error) {
	o.Id, o.Record, err = env.Decide(ctx, o.Intent, "garrison watch")
	if o.Record.GetState() == intentv1.State_STATE_REFUSED {
		return client.Refused(takenForChannel(o.Intent, o.Record.GetRefusal()))
	}
	return err
}

// decidedText describes the registry's decision.
func decidedText(o watch.Order) string {
	r := o.Record
	verb := "accepted: " + askText(o.Intent, o.Agent) + " changes "
	return verb + output.Plural(int(r.GetChanged()), "server") +
		countsText(r.GetAlready(), r.GetPassedOver(), r.GetLeftOut()) + "; intent " + o.Id
}
