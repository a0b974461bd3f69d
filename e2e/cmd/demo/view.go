package main

import (
	"context"

	"github.com/rs/zerolog"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// liveView asks a running service for its view, over the bus.
func (s *show) liveView(ctx context.Context, service string) (*apiv1.ViewResponse, error) {
	c, err := trust.ReadContext(s.fleet.ContextFile())
	if err != nil {
		return nil, err
	}
	conn, err := bus.Dial(bus.Options{URL: c.URL, Name: c.Actor, API: topology.OpsAPI, Credentials: c.Credentials, Log: zerolog.Nop()})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	method := apiv1.File_garrison_api_v1_api_proto.Services().ByName("AboutService").Methods().ByName("View")
	return bus.Call[*apiv1.ViewResponse](ctx, conn, service, method, &apiv1.ViewRequest{})
}
