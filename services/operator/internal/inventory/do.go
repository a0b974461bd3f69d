package inventory

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
)

// atOnce is how many servers are written at once.
const atOnce = 8

// Failure is a change that was not made.
type Failure struct {
	Change declare.Change
	Err    error
}

// Result is what became of the changes of a plan.
type Result struct {
	Done   []declare.Change
	Failed []Failure
}

// Do makes the changes of a plan, in its order; servers side by side. A failed change does not keep others from being
// made: the services refuse those that need it. Its error means that nothing was done.
func Do(ctx context.Context, env *cli.Env, plan *declare.Plan, inv Invitations) (Result, error) {
	var out Result
	if err := inv.prepare(); err != nil {
		return out, err
	}
	var mu sync.Mutex
	one := func(c declare.Change) {
		var err error
		if c.Kind == declare.Servers && c.Action == declare.Create {
			err = inv.invite(ctx, env, c)
		} else {
			err = callOf(c)(ctx, env)
		}
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			out.Failed = append(out.Failed, Failure{c, err})
			return
		}
		out.Done = append(out.Done, c)
	}
	var servers errgroup.Group
	servers.SetLimit(atOnce)
	for _, c := range plan.Changes {
		if c.Kind != declare.Servers {
			_ = servers.Wait() // what is deleted must have lost its servers first
			one(c)
			continue
		}
		servers.Go(func() error {
			one(c)
			return nil
		})
	}
	_ = servers.Wait()
	return out, nil
}
