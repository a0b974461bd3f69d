package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/micro"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

const callers = 16

// measureQuery compares a call of the registry about one server with a call of an empty
// service, both from an operator's account, by 16 callers at once.
func measureQuery(ctx context.Context, s settings) (_ []figure, err error) {
	w, err := newWorld(ctx, s, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.begin(ctx, topology.UserRegistry); err != nil {
		return nil, err
	}
	if _, err := w.CLI(ctx, "server", "enroll", "alpha"); err != nil {
		return nil, err
	}
	stop, err := echo(w)
	if err != nil {
		return nil, err
	}
	defer stop()
	conn, err := w.operator()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	method := registryv1.File_garrison_registry_v1_registry_service_proto.Services().
		ByName("RegistryService").
		Methods().
		ByName("GetServer")
	query := func(ctx context.Context) error {
		_, err := bus.Call[*registryv1.GetServerResponse](ctx, conn, topology.UserRegistry, method,
			&registryv1.GetServerRequest{Server: "alpha"})
		return err
	}
	empty := func(ctx context.Context) error {
		_, err := bus.Call[*registryv1.GetServerResponse](ctx, conn, echoing, method,
			&registryv1.GetServerRequest{Server: "alpha"})
		return err
	}
	n := s.scaled(40_000)
	var ours, limits, oursP99, limitsP99 []float64
	for range 3 {
		rate, p99, err := load(ctx, n, empty)
		if err != nil {
			return nil, err
		}
		limits, limitsP99 = append(limits, rate), append(limitsP99, p99)
		if rate, p99, err = load(ctx, n, query); err != nil {
			return nil, err
		}
		ours, oursP99 = append(ours, rate), append(oursP99, p99)
	}
	return []figure{
		{
			"query of one server, requests/s, 16 callers",
			spread(ours, "%.0f"),
			"empty micro echo: " + spread(limits, "%.0f"),
			ratio(median(ours), median(limits)),
			">= 0.7",
		},
		{
			"query of one server, p99 ms",
			spread(oursP99, "%.1f"),
			"empty micro echo: " + spread(limitsP99, "%.1f"),
			ratio(median(oursP99), median(limitsP99)),
			"<= 2",
		},
	}, nil
}

// echoing is the service that echo stands in for: its methods are exported to people.
const echoing = topology.UserCatalog

// echo serves empty answers from this process in place of a service that does not run.
func echo(w *world) (func(), error) {
	nc, err := unlimited(w, topology.AccountOf(echoing))
	if err != nil {
		return nil, err
	}
	service, err := micro.AddService(nc, micro.Config{Name: "echo", Version: "0.0.1"})
	if err != nil {
		return nil, err
	}
	answer := micro.HandlerFunc(func(r micro.Request) { _ = r.Respond(nil) })
	err = service.AddEndpoint("GetServer", answer,
		micro.WithEndpointSubject(topology.APISubject(echoing, "read", "get-server", "*")))
	return func() {
		_ = service.Stop()
		nc.Close()
	}, err
}

// load sends n requests from several callers at once. It returns the requests per second and the p99 in milliseconds.
func load(ctx context.Context, n int, ask func(context.Context) error) (rate, p99 float64, err error) {
	took := make([][]float64, callers)
	errs := make([]error, callers)
	var wg sync.WaitGroup
	started := time.Now()
	for c := range callers {
		wg.Go(func() {
			for range n / callers {
				at := time.Now()
				if errs[c] = ask(ctx); errs[c] != nil {
					return
				}
				took[c] = append(took[c], time.Since(at).Seconds()*1000)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, 0, fmt.Errorf("ask: %w", err)
	}
	all := slices.Sorted(slices.Values(slices.Concat(took...)))
	return float64(len(all)) / time.Since(started).Seconds(), all[len(all)*99/100], nil
}
