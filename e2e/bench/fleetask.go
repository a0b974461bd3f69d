package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
)

// asks measures the registry and the CLI while all servers change.
func (f *simulatedFleet) asks(ctx context.Context) ([]figure, error) {
	if err := f.restart(ctx, f.servers); err != nil {
		return nil, err
	}
	quiet, err := f.listUntil(ctx, func() error { return sleepFor(ctx, 5*time.Second) })
	if err != nil {
		return nil, err
	}
	busy, err := f.listUntil(ctx, func() error { return f.change(ctx) })
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if _, err := f.CLI(ctx, "events", "--limit", "20"); err != nil {
		return nil, err
	}
	took := time.Since(began).Seconds() * 1000
	began = time.Now()
	if _, err := f.CLI(ctx, "versions", "--client"); err != nil {
		return nil, err
	}
	alone := time.Since(began).Seconds() * 1000
	return []figure{
		{f.named("a page of 1,000 servers during up, p99 ms"), fmt.Sprintf("%.0f (n=%d)", at(busy, 99), len(busy)),
			fmt.Sprintf("idle: %.0f (n=%d)", at(quiet, 99), len(quiet)), ratio(at(busy, 99), at(quiet, 99)), ""},
		{f.named("garrison events --limit 20, ms"), fmt.Sprintf("%.0f", took),
			fmt.Sprintf("versions --client: %.0f", alone), ratio(took, alone), ""},
	}, nil
}

func sleepFor(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// listUntil asks for a page of servers ten times a second until work has ended, and returns the sorted milliseconds.
func (f *simulatedFleet) listUntil(ctx context.Context, work func() error) (took []float64, err error) {
	c, err := f.Client(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	done := make(chan struct{})
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() { failed = work(); close(done) })
	for {
		began := time.Now()
		_, err := client.Call[*registryv1.ListServersResponse](ctx, c,
			&registryv1.ListServersRequest{Page: &apiv1.Page{Limit: 1000}})
		if err != nil {
			wg.Wait()
			return nil, errors.Join(err, failed)
		}
		took = append(took, time.Since(began).Seconds()*1000)
		select {
		case <-done:
			slices.Sort(took)
			return took, failed
		case <-time.After(100 * time.Millisecond):
		}
	}
}
