package cli

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/strict"
)

// Call sends a request to the service that takes it and returns the response. It connects first if necessary.
func Call[R proto.Message](ctx context.Context, env *Env, request proto.Message) (R, error) {
	c, err := env.Client(ctx)
	if err != nil {
		var zero R
		return zero, err
	}
	r, err := client.Call[R](ctx, c, request)
	if err == nil {
		env.sayNewer(r)
	}
	return r, err
}

// sayNewer says once that a service is newer than this program, when an answer holds what this program does not know.
func (env *Env) sayNewer(answer proto.Message) {
	if env.newer {
		return
	}
	if err := strict.Check(answer); err != nil {
		env.newer = true
		env.Say("the control plane is newer than this garrison, which does not show all of its answer (%v); "+
			"see garrison versions", err)
	}
}

// CallService sends a request that every service takes to one of them, by its name on the bus.
func CallService[R proto.Message](ctx context.Context, env *Env, service string, request proto.Message) (R, error) {
	c, err := env.Client(ctx)
	if err != nil {
		var zero R
		return zero, err
	}
	return client.CallService[R](ctx, c, service, request)
}
