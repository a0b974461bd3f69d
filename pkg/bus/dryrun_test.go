package bus_test

import (
	"context"
	"errors"
	"testing"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

func TestADryRunReachesTheHandlerAndStoresNothing(t *testing.T) {
	t.Parallel()
	var c *bus.Conn
	c = serving(t, func(
		ctx context.Context, _ bus.Caller, q *registryv1.GetServerRequest,
	) (*registryv1.GetServerResponse, error) {
		if q.Server == "same" {
			return &registryv1.GetServerResponse{}, nil
		}
		_, err := c.PublishDurable(ctx, bus.Durable{Subject: topology.IntentSubject("install", "alice", "1")})
		return nil, err
	})
	ask := func(ctx context.Context, server string) error {
		_, err := bus.Call[*registryv1.GetServerResponse](ctx, c, "registry", getServer,
			&registryv1.GetServerRequest{Server: server})
		return err
	}
	for server, want := range map[string]error{"other": bus.ErrDryRun, "same": nil} {
		if err := ask(bus.WithDryRun(t.Context()), server); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", server, err, want)
		}
	}
	if end := endOf(t, c); end != 0 {
		t.Errorf("%d messages are stored after dry runs", end)
	}
	if err := ask(t.Context(), "other"); err != nil || endOf(t, c) != 1 {
		t.Errorf("without a dry run: %v, %d messages are stored", err, endOf(t, c))
	}
}

func TestADryRunSaysWhyAsAnyOtherCall(t *testing.T) {
	t.Parallel()
	var c *bus.Conn
	heard, request, dry := "", "", false
	c = serving(t, func(
		ctx context.Context, who bus.Caller, _ *registryv1.GetServerRequest,
	) (*registryv1.GetServerResponse, error) {
		heard, request, dry = who.Note, who.Request, bus.IsDryRun(ctx)
		return &registryv1.GetServerResponse{}, nil
	})
	id := ident.New()
	ctx := bus.AsRequest(bus.WithNote(bus.WithDryRun(t.Context()), "OPS-8"), id)
	_, err := bus.Call[*registryv1.GetServerResponse](ctx, c, "registry", getServer, &registryv1.GetServerRequest{})
	if err != nil || heard != "OPS-8" || request != bus.RequestOf(c.Name(), id) || !dry {
		t.Errorf("%v: the handler heard %q as request %q, dry %t", err, heard, request, dry)
	}
}

// endOf returns how many intents are stored.
func endOf(t *testing.T, c *bus.Conn) uint64 {
	t.Helper()
	info, err := c.Stream(t.Context(), topology.Intents)
	if err != nil {
		t.Fatal(err)
	}
	return info.LastSequence
}

func TestAWriterAppendsNothingInADryRun(t *testing.T) {
	t.Parallel()
	w := bustest.Start(t).Dial(t, "registry").NewWriter() // does not run: an append would wait
	if _, err := w.Append(bus.WithDryRun(t.Context())); !errors.Is(err, bus.ErrDryRun) {
		t.Errorf("%v, want that it is a dry run", err)
	}
}
