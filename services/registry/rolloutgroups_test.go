package registry

import (
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// ring is a stage for the servers with values of the label ring.
func ring(values ...string) *rolloutv1.Stage {
	return meeting(&rolloutv1.Match{
		Field: "label.ring", Relation: rolloutv1.Relation_RELATION_IN, Values: values,
	})
}

func meeting(m *rolloutv1.Match) *rolloutv1.Stage {
	return &rolloutv1.Stage{Of: &rolloutv1.Group{Where: []*rolloutv1.Match{m}}}
}

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
