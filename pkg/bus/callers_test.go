package bus_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// An actor whose requests are all under way gets a refusal at once, and another actor an answer.
func TestOneActorsRequestsDoNotHoldUpAnothers(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	d := registryv1.File_garrison_registry_v1_registry_service_proto.Services().ByName("RegistryService")
	s, err := b.Dial(t, topology.UserRegistry).NewService(topology.UserRegistry, "v1.0.0", d)
	if err != nil {
		t.Fatal(err)
	}
	hold := make(chan struct{})
	err = bus.Handle(s, "GetServer", func(
		_ context.Context, c bus.Caller, _ *registryv1.GetServerRequest,
	) (*registryv1.GetServerResponse, error) {
		if c.Actor == "eve" {
			<-hold
		}
		return &registryv1.GetServerResponse{}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	get := func(c *bus.Conn) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := bus.Call[*registryv1.GetServerResponse](ctx, c, topology.UserRegistry,
			d.Methods().ByName("GetServer"), &registryv1.GetServerRequest{})
		return err
	}
	eve, ann := b.Dial(t, "eve"), b.Dial(t, "ann")
	const tries = 40
	results := make(chan error, tries)
	for range tries {
		go func() { results <- get(eve) }()
	}
	for range tries - 16 {
		r := fault.RefusalOf(<-results)
		if r.GetCode() != "BUSY" || r.GetRetryAfterMs() == 0 {
			t.Errorf("refused with %v, want BUSY and a time", r)
		}
	}
	if err := get(ann); err != nil {
		t.Errorf("another actor: %v", err)
	}
	close(hold)
	for range 16 {
		if err := <-results; err != nil {
			t.Errorf("a request that was taken: %v", err)
		}
	}
	if err := get(eve); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// Eight requests of half a MiB decode to more memory than one actor may take: four are under way, and more of another
// actor.
func TestOneActorsLargeRequestsAreRefusedBeforeTheyAreRead(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	d := registryv1.File_garrison_registry_v1_registry_service_proto.Services().ByName("RegistryService")
	s, err := b.Dial(t, topology.UserRegistry).NewService(topology.UserRegistry, "v1.0.0", d)
	if err != nil {
		t.Fatal(err)
	}
	hold := make(chan struct{})
	err = bus.Handle(s, "GetServer", func(
		context.Context, bus.Caller, *registryv1.GetServerRequest,
	) (*registryv1.GetServerResponse, error) {
		<-hold
		return &registryv1.GetServerResponse{}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	large := &registryv1.GetServerRequest{Server: strings.Repeat("x", topology.ChunkSize)}
	results := make(chan error, 8)
	eve := b.Dial(t, "eve")
	for range 8 {
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := bus.Call[*registryv1.GetServerResponse](ctx, eve, topology.UserRegistry,
				d.Methods().ByName("GetServer"), large)
			results <- err
		}()
	}
	for range 4 {
		if r := fault.RefusalOf(<-results); r.GetCode() != "BUSY" {
			t.Errorf("refused with %v, want BUSY", r)
		}
	}
	close(hold)
	for range 4 {
		if err := <-results; err != nil {
			t.Errorf("a request that was taken: %v", err)
		}
	}
}
