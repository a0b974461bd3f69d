package registry

import (
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

func (s *site) heal() *registryv1.ChangeEnvironmentRequest {
	return &registryv1.ChangeEnvironmentRequest{Environment: &environmentv1.Environment{
		Name: "prod", Drift: environmentv1.DriftPolicy_DRIFT_POLICY_HEAL, DriftBrake: 100,
	}}
}
