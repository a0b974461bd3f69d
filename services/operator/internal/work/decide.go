package work

import (
	"context"
	"errors"
	"fmt"
	"time"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/pkg/client"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/watch"
)

// decideWithin bounds the wait for an intent's decision.
const decideWithin = 30 * time.Second

// errUndecided ends the wait for a decision.
var errUndecided = fmt.Errorf("no decision within %s", decideWithin)

// decide publishes an intent and waits for the registry's decision. A refusal is an error.
func decide(ctx context.Context, env *cli.Env, o *watch.Order) error {
	c, err := env.Client(ctx)
	if err != nil {
		return err
	}
	o.Id = client.NewID()
	if err := c.Publish(ctx, o.Id, o.Intent); err != nil {
		return cli.FirstError(context.Cause(ctx), err)
	}
	once, cancel := context.WithTimeoutCause(ctx, decideWithin, errUndecided)
	defer cancel()
	o.Record, err = c.Decision(once, o.Id)
	switch {
	case err == nil:
		return nil
	case o.Record.GetState() == intentv1.State_STATE_REFUSED:
		return client.Refused(takenForChannel(o.Intent, o.Record.GetRefusal()))
	case errors.Is(err, errUndecided):
		env.Say("the intent is stored and will be decided; to return: garrison watch %s", o.Id)
		return cli.Exit{Code: cli.ExitTimeout, Err: err}
	case once.Err() != nil:
		return env.Left(ctx, context.Cause(ctx), "garrison watch "+o.Id)
	}
	return err
}

// decidedText describes the registry's decision.
func decidedText(o watch.Order) string {
	r := o.Record
	verb := "accepted: " + askText(o.Intent, o.Agent) + " changes "
	if o.Intent.GetDryRun() {
		verb = "dry run: " + askText(o.Intent, o.Agent) + " would change "
	}
	return verb + output.Plural(int(r.GetChanged()), "server") +
		countsText(r.GetAlready(), r.GetPassedOver(), r.GetLeftOut()) + "; intent " + o.Id
}
