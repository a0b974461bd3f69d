package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
)

// decideWithin bounds the wait for an intent's decision.
const decideWithin = time.Minute

// errUndecided ends the wait for a decision.
var errUndecided = fmt.Errorf("no decision within %s", decideWithin)

// Decide publishes an intent under a new id and waits for the registry's decision. One that was refused is an error,
// with its record beside it. again is the command that returns to the intent, without its id.
func (env *Env) Decide(
	ctx context.Context, in *intentv1.Intent, again string,
) (id string, record *intentv1.Record, err error) {
	c, err := env.Client(ctx)
	if err != nil {
		return "", nil, err
	}
	id = client.NewID()
	again += " " + id
	if err := c.Publish(ctx, id, in); err != nil {
		switch {
		case client.NotStored(err):
			env.Say("the intent is not stored and changes nothing")
		default:
			env.Say("the bus did not answer, so it alone knows whether the intent is stored; once it answers: %s",
				again)
		}
		return id, nil, FirstError(context.Cause(ctx), err)
	}
	once, cancel := context.WithTimeoutCause(ctx, decideWithin, errUndecided)
	defer cancel()
	record, err = c.Decision(once, id)
	switch {
	case err == nil, record != nil:
		return id, record, err
	case errors.Is(err, errUndecided):
		env.Say("the intent is stored and will be decided; to return: %s", again)
		return id, nil, Exit{Code: ExitTimeout, Err: err}
	case once.Err() != nil:
		return id, nil, env.Left(ctx, context.Cause(ctx), again)
	}
	return id, nil, err
}
