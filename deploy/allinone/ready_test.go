package allinone_test

import (
	"context"
	"errors"
	"testing"
	"time"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

func TestItIsReadyOnceItsServicesAnswer(t *testing.T) {
	g, err := start(t, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	soon, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := g.WaitReady(soon); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("ready before its services run: %v", err)
	}
	bustest.Go(t, g.Run)
	if err := g.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	who, err := trust.ReadContext(g.ContextFile())
	if err != nil {
		t.Fatal(err)
	}
	c, err := bus.Dial(bus.Options{URL: g.URL(), Name: who.Actor, API: topology.OpsAPI, Credentials: who.Credentials})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	list := registryv1.File_garrison_registry_v1_registry_service_proto.Services().ByName("RegistryService").Methods().ByName("ListServers")
	if _, err := bus.Call[*registryv1.ListServersResponse](t.Context(), c, "registry", list, &registryv1.ListServersRequest{}); err != nil {
		t.Errorf("the first request: %v", err)
	}
}
