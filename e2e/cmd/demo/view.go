package main

import (
	"context"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
)

// liveView returns the view of a running service.
func (s *show) liveView(ctx context.Context, service string) (*apiv1.ViewResponse, error) {
	c, err := s.fleet.Client(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return client.CallService[*apiv1.ViewResponse](ctx, c, service, &apiv1.ViewRequest{})
}
