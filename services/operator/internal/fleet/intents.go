package fleet

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/display"
)

// Progress returns the progress of an intent from the dispatcher, with up to rows of its tasks.
func Progress(ctx context.Context, env *cli.Env, id string, rows uint32) (display.Progress, error) {
	return cli.Call[display.Progress](ctx, env, &dispatcherv1.GetIntentProgressRequest{IntentId: id, Rows: rows})
}

// WholeIntent returns the id of the intent that a prefix of it names. It asks for nothing when id is whole.
func WholeIntent(ctx context.Context, env *cli.Env, id string) (string, error) {
	if ident.IsUUID(id) {
		return id, nil
	}
	r, err := Intent(ctx, env, id, 0)
	return r.GetId(), err
}

// Intent returns the record of an intent, by its id or a prefix that no other kept intent has. It waits up to wait for
// the registry's decision.
func Intent(ctx context.Context, env *cli.Env, id string, wait time.Duration) (*intentv1.Record, error) {
	q := &registryv1.GetIntentRequest{IntentId: id}
	if wait > 0 {
		q.Wait = durationpb.New(wait)
	}
	r, err := cli.Call[*registryv1.GetIntentResponse](ctx, env, q)
	return r.GetIntent(), err
}
