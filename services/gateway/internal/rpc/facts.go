package rpc

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	gatewayv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/gateway/v1"

	"github.com/garrison-fleet/garrison/services/gateway/internal/actor"
	"github.com/garrison-fleet/garrison/services/gateway/internal/failure"
	"github.com/garrison-fleet/garrison/services/gateway/internal/stream"
)

func handleFacts(mux *http.ServeMux, streams func(http.Handler) http.Handler) {
	procedure, o := own("FollowFacts")
	mux.Handle(procedure, streams(connect.NewServerStreamHandler(procedure, follow, o...)))
}

// follow streams the facts of the ledger.
func follow(
	ctx context.Context, q *connect.Request[gatewayv1.FollowFactsRequest],
	out *connect.ServerStream[gatewayv1.FollowFactsResponse],
) error {
	if err := stream.Follow(ctx, actor.From(ctx), q.Msg, out.Send); err != nil {
		return failure.Error(err)
	}
	return nil
}
