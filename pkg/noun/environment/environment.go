// Package environment is the life of the noun environment: a named group of servers with its channel, its metadata, its
// defaults, the agents that its servers get, and its policy about drift. The registry writes the noun.
//
//	next, fit := environment.Apply(record, fact)
//
// Guarantees:
//
//  1. A record is created once and changed or deleted only while it exists.
//  2. Only default-set and default-unset change the defaults. Default-unset fits only where there is one.
//  3. Only drift-braked and drift-released change whether healing is braked, and they alternate.
package environment

import (
	"cmp"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/declared"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
)

// None stands, where servers are selected, for those without an environment. No environment has that name.
const None = "none"

// Life lists which facts can happen in which state, and the state that follows.
var Life = declared.Table{
	declared.Absent: declared.Life[declared.Absent],
	declared.Present: {
		"changed": declared.Present, "deleted": declared.Absent,
		"default-set": declared.Present, "default-unset": declared.Present,
		"drift-braked": declared.Present, "drift-released": declared.Present,
	},
}

// Apply folds a fact into an environment's record, which is nil for an unknown environment, and returns the
// record after it; nil means that the environment is deleted. It returns false, and the record unchanged,
// for a fact that does not fit.
func Apply(have *environmentv1.Environment, f ledger.Fact) (*environmentv1.Environment, bool) {
	if _, fit := declared.Next(Life, have != nil, f.Name()); !fit {
		return have, false
	}
	switch b := f.Body.(type) {
	case *environmentv1.DefaultSet:
		return setDefault(have, b, f)
	case *environmentv1.DefaultUnset:
		return unsetDefault(have, b)
	case *environmentv1.DriftBraked:
		return brake(have, b, f)
	case *environmentv1.DriftReleased:
		return release(have)
	}
	next, fit := declared.Apply(have, f)
	if fit && next != nil {
		next.Defaults, next.Braked = have.GetDefaults(), have.GetBraked()
	}
	return next, fit
}

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
