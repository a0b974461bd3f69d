package cli

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/client"
)

// Call sends a request to the service that takes it and returns the response. It connects first if necessary.
func Call[R proto.Message](ctx context.Context, env *Env, request proto.Message) (R, error) {
	c, err := env.Client(ctx)
	if err != nil {
		var zero R
		return zero, err
	}
	return client.Call[R](ctx, c, request)
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
