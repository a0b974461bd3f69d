package allinone_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/freeport"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/deploy/allinone"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

func TestItIsReadyOnceItsServicesAnswer(t *testing.T) {
	t.Parallel()
	g, err := start(t, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	soon, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := g.WaitReady(soon); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("ready before its services run: %v", err)
	}
	address := strings.TrimPrefix(g.URL(), "tls://")
	if _, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a client before the services run: %v, want it refused", err)
	}
	run(t, g)
	who, err := trust.ReadContext(g.ContextFile())
	if err != nil {
		t.Fatal(err)
	}
	c, err := bus.Dial(bus.Options{
		URL: g.URL(), Name: who.Actor, TLS: bus.TLSOf(who), Credentials: who.Credentials,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	list := registryv1.File_garrison_registry_v1_registry_service_proto.Services().
		ByName("RegistryService").
		Methods().
		ByName("ListServers")
	q := &registryv1.ListServersRequest{}
	if _, err := bus.Call[*registryv1.ListServersResponse](t.Context(), c, "registry", list, q); err != nil {
		t.Errorf("the first request: %v", err)
	}
}

func TestADirectoryIsHealthyWhileItsGarrisondServesClients(t *testing.T) {
	t.Parallel()
	g := startWith(t, allinone.Config{Data: filepath.Join(t.TempDir(), "data"), Listen: "127.0.0.1:0"})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := g.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	data := filepath.Dir(g.ContextFile())
	if err := allinone.HealthOf(ctx, data); err != nil {
		t.Error(err)
	}
	if err := g.Alive(ctx); err != nil {
		t.Error(err)
	}
	stopped := t.TempDir()
	port, err := freeport.Take()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(stopped, "address"), []byte(freeport.Address(port)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := allinone.HealthOf(ctx, stopped); err == nil || !strings.Contains(err.Error(), "does not serve clients") {
		t.Errorf("a garrisond that was stopped: %v", err)
	}
}
