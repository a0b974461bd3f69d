package operator

import registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

// planRollout answers as a registry of a release that knows no start of rollouts: the intent comes back as it was.
func planRollout(q *registryv1.PlanRolloutRequest) (*registryv1.PlanRolloutResponse, error) {
	return &registryv1.PlanRolloutResponse{
		Intent: q.GetIntent(), Title: "upgrade beacon to 2.0.0", Waves: []uint32{1, 2},
	}, nil
}
