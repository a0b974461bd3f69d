package registry

import (
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// taking is a stage of n servers.
func taking(n uint32) *rolloutv1.Stage {
	return &rolloutv1.Stage{Size: &rolloutv1.Stage_Servers{Servers: n}}
}

// staged is a rollout with these stages.
func staged(stages ...*rolloutv1.Stage) *intentv1.Intent {
	in := waves(&rolloutv1.Strategy{})
	in.GetRollout().Strategy.Stages = stages
	return in
}
