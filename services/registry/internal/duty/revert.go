package duty

import (
	"cmp"
	"iter"

	"google.golang.org/protobuf/proto"

	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
)

// revert makes each instance whose change is off wanted as the change before wanted it. An instance without a change
// before is gone, because it never reached the server.
func revert(instances iter.Seq[*instancev1.Instance]) []Unit {
	var out []Unit
	for i := range instances {
		if i.Reverts {
			out = append(out, Unit{{i, before(i)}})
		}
	}
	return out
}

func before(i *instancev1.Instance) proto.Message {
	last, generation := i.LastBegun, i.Generation+1
	switch {
	case last == nil:
		return &instancev1.Gone{InstanceId: i.Id, IntentId: i.IntentId}
	case last.Wanted == nil:
		return &instancev1.Unwanted{
			InstanceId: i.Id, Generation: generation, IntentId: last.IntentId, RevertedIntentId: i.IntentId,
		}
	}
	return &instancev1.Wanted{
		InstanceId: i.Id, Generation: generation, Image: last.Wanted, Configuration: last.Configuration,
		IntentId: cmp.Or(last.IntentId, i.IntentId), RevertedIntentId: i.IntentId, // an adopted instance has no intent
	}
}
