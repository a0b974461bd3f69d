package environment

import (
	"cmp"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
)

// DefaultDriftBrake is the percentage of online servers above which healing is braked when the record names none.
const DefaultDriftBrake = 20

// DriftPolicy returns what is done about drift in an environment; nil stands for servers without one.
func DriftPolicy(e *environmentv1.Environment) environmentv1.DriftPolicy {
	return cmp.Or(e.GetDrift(), environmentv1.DriftPolicy_DRIFT_POLICY_HEAL)
}

// DriftBrake returns the percentage of an environment's online servers above which healing is braked.
func DriftBrake(e *environmentv1.Environment) uint32 {
	return cmp.Or(e.GetDriftBrake(), DefaultDriftBrake)
}

func brake(
	have *environmentv1.Environment, b *environmentv1.DriftBraked, f ledger.Fact,
) (*environmentv1.Environment, bool) {
	if have.Braked != nil {
		return have, false
	}
	next := proto.CloneOf(have)
	next.Braked = &environmentv1.Brake{
		Drifting: b.Drifting, Online: b.Online, Percent: b.Percent, Since: timestamppb.New(f.At),
	}
	return next, true
}

func release(have *environmentv1.Environment) (*environmentv1.Environment, bool) {
	if have.Braked == nil {
		return have, false
	}
	next := proto.CloneOf(have)
	next.Braked = nil
	return next, true
}
