package bus_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

// older serves one method as an older version of a registry does, and counts its calls.
func older(t *testing.T) (c *bus.Conn, calls *atomic.Int64) {
	t.Helper()
	calls = &atomic.Int64{}
	b := bustest.Start(t)
	s, err := b.Dial(t, "registry").NewService("registry", "v1.2.3", registryService)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	err = bus.Handle(
		s,
		"ListServers",
		func(context.Context, bus.Caller, *registryv1.ListServersRequest) (*registryv1.ListServersResponse, error) {
			calls.Add(1)
			return &registryv1.ListServersResponse{}, nil
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.RefuseUnknown(); err != nil {
		t.Fatal(err)
	}
	return b.Dial(t, "alice"), calls
}

func TestAnUnknownMethodIsRefusedWithTheVersionOfTheService(t *testing.T) {
	t.Parallel()
	c, _ := older(t)
	_, err := bus.Call[*registryv1.GetServerResponse](t.Context(), c, "registry", getServer,
		&registryv1.GetServerRequest{})
	r := fault.RefusalOf(err)
	if r.GetCode() != "UNKNOWN_METHOD" || r.GetComponent() != "registry" ||
		!strings.Contains(r.GetMessage(), "unknown method get-server") || !strings.Contains(r.GetMessage(), "v1.2.3") {
		t.Errorf("%v", err)
	}
	_, err = bus.Call[*registryv1.GetServerResponse](t.Context(), c, "no-such-service", getServer,
		&registryv1.GetServerRequest{})
	if fault.RefusalOf(err).GetCode() != "NO_ANSWER" {
		t.Errorf("a service that is not there: %v, want NO_ANSWER", err)
	}
}

func TestAKnownMethodIsAnsweredOnceBesideTheRefusalOfUnknownOnes(t *testing.T) {
	t.Parallel()
	c, calls := older(t)
	list := registryService.Methods().ByName("ListServers")
	for range 200 {
		_, err := bus.Call[*registryv1.ListServersResponse](t.Context(), c, "registry", list,
			&registryv1.ListServersRequest{})
		if err != nil {
			t.Fatal(err)
		}
	}
	if calls.Load() != 200 {
		t.Errorf("%d calls; want 200", calls.Load())
	}
}

func TestARequestThatIsNotUnderstoodWhollyIsRefused(t *testing.T) {
	t.Parallel()
	c, calls := older(t)
	list := registryService.Methods().ByName("ListServers")
	newer := &registryv1.ListServersRequest{Page: &apiv1.Page{}}
	newer.Page.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1))
	for want, q := range map[string]*registryv1.ListServersRequest{
		"page: unknown field 99":       newer,
		"life: unknown value 77 of ":   {Life: serverv1.Life(77)},
		"this registry is version v1.": {Life: serverv1.Life(77)},
	} {
		_, err := bus.Call[*registryv1.ListServersResponse](t.Context(), c, "registry", list, q)
		if r := fault.RefusalOf(err); r.GetCode() != "UNKNOWN_FIELD" || !strings.Contains(r.GetMessage(), want) {
			t.Errorf("%v; want UNKNOWN_FIELD with %q", err, want)
		}
	}
	if calls.Load() != 0 {
		t.Errorf("it was asked %d times; want never", calls.Load())
	}
}
