package fleet

import (
	"context"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/ledger"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// RolloutID returns the id of the rollout that has this id, or the beginning of it.
func RolloutID(ctx context.Context, env *cli.Env, word string) (string, error) {
	r, err := cli.Call[*registryv1.GetRolloutResponse](ctx, env, &registryv1.GetRolloutRequest{RolloutId: word})
	return r.GetRollout().GetId(), err
}

// Derived returns the ids of the intents that rollouts led to, in the order of the ledger.
func Derived(ctx context.Context, c *client.Client, of func(rollout string) bool) (ids []string, err error) {
	for e, err := range c.Events(ctx, client.Query{Noun: ledger.Intent, Gaps: true}) {
		if err != nil {
			return nil, err
		}
		if IsDerived(e, of) {
			ids = append(ids, e.Key)
		}
	}
	return ids, nil
}

// IsDerived reports whether a fact accepts an intent that a rollout led to.
func IsDerived(e client.Event, of func(rollout string) bool) bool {
	b, _ := e.Body.(*intentv1.Accepted)
	id := b.GetIntent().GetSource().GetRolloutId()
	return id != "" && of(id)
}
