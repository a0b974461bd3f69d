package bus_test

import (
	"context"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

var twoMegabytes = strings.Repeat("x", 2<<20)

func largeServer() *registryv1.GetServerResponse {
	return &registryv1.GetServerResponse{Server: &serverv1.Server{Reason: twoMegabytes}}
}

func TestAnAnswerThatIsTooLargeIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	c := serving(t, func(
		context.Context, bus.Caller, *registryv1.GetServerRequest,
	) (*registryv1.GetServerResponse, error) {
		return largeServer(), nil
	})
	_, err := bus.Call[*registryv1.GetServerResponse](t.Context(), c, "registry", getServer,
		&registryv1.GetServerRequest{})
	if r := fault.RefusalOf(err); r.GetCode() != code.AnswerTooLarge || r.GetComponent() != "registry" {
		t.Errorf("%v; want a refusal", err)
	}
}

func TestARefusalThatIsTooLargeIsShortened(t *testing.T) {
	t.Parallel()
	c := serving(t, func(
		context.Context, bus.Caller, *registryv1.GetServerRequest,
	) (*registryv1.GetServerResponse, error) {
		return nil, fault.Refusef(fault.NotFound, code.UnknownServer, "no server %q", twoMegabytes)
	})
	_, err := bus.Call[*registryv1.GetServerResponse](t.Context(), c, "registry", getServer,
		&registryv1.GetServerRequest{})
	if fault.RefusalOf(err).GetCode() != code.UnknownServer || len(err.Error()) > 2000 {
		t.Errorf("%.200v; want a short refusal", err)
	}
}

func TestAnAnswerBesideTheMethodsThatIsTooLargeIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	stop, err := bus.Answer(b.Dial(t, "registry"), topology.EnrolSubjects, "registry",
		func(context.Context, string, *registryv1.EnrolRequest) (*registryv1.GetServerResponse, error) {
			return largeServer(), nil
		})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	subject := topology.EnrolSubject(topology.ServerAddress{Cell: "main", Server: "s"})
	_, err = bus.Ask[*registryv1.GetServerResponse](t.Context(), b.Dial(t, "s"), subject, &registryv1.EnrolRequest{})
	if fault.RefusalOf(err).GetCode() != code.AnswerTooLarge {
		t.Errorf("%v; want a refusal", err)
	}
}
