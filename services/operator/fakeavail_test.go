package operator

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// listAvailable answers that the agent beacon has a newer image in prod, and that agents without one have none.
func listAvailable(q *registryv1.ListAvailableRequest) (*registryv1.ListAvailableResponse, error) {
	switch q.GetAgent() {
	case "", "beacon":
	case "web":
		return &registryv1.ListAvailableResponse{}, nil
	default:
		return nil, unknown("UNKNOWN_AGENT", "agent", q.GetAgent(), "beacon")
	}
	return &registryv1.ListAvailableResponse{Available: []*registryv1.Available{{
		Agent: "beacon", Environment: "prod", Channel: "release",
		Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"},
		Version:  "1.1.0", ImageId: "00000000-0000-4000-8000-000000000011",
		BuiltAt: timestamppb.New(noon.Add(-2 * time.Minute)), Instances: 10, Behind: 3,
		Versions: []*registryv1.AvailableVersion{{Version: "1.0.0", Instances: 3}, {Version: "1.1.0", Instances: 7}},
	}}}, nil
}
