package operator

import (
	"context"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	logv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/log/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// logs opens the output of an agent that was upgraded once, and answers for the server that keeps it.
func (f *fakes) logs(t testing.TB, s *bus.Service, server *bus.Conn) {
	parts := []*logv1.ReadResponse{
		{Version: "1.0.0", Data: []byte("listening on 127.0.0.1:8080\nsignal: terminated, 0 requests are open\n")},
		{Version: "2.0.0", Data: []byte("listening on 127.0.0.1:8080\n")},
	}
	end := uint64(0)
	for _, p := range parts {
		p.Marks = []*logv1.Mark{{End: uint32(len(p.Data)), By: timestamppb.New(noon)}}
		end += uint64(len(p.Data))
		p.Position = end
	}
	handle(t, f, s, "OpenLog", func(*registryv1.OpenLogRequest) (*registryv1.OpenLogResponse, error) {
		return &registryv1.OpenLogResponse{
			Cell: "main", ServerId: web1, ServerName: "web-1", SessionId: ident.New(), End: end,
		}, nil
	})
	stop, err := bus.Answer(server, topology.LogReadSubjects, "",
		func(_ context.Context, _ string, q *logv1.ReadRequest) (*logv1.ReadResponse, error) {
			if q.GetPosition() == 0 {
				return parts[0], nil
			}
			return parts[1], nil
		})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
}
