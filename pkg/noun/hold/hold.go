// Package hold is the life of the noun hold: an agent that no intent changes on some servers for a while. The registry
// writes the noun.
//
//	next, fit := hold.Apply(record, fact)
//
// Guarantees:
//
//  1. A record exists from the first time that a hold is set until it is unset.
//  2. One agent and one selector have one id.
package hold

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/fsm"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
)

// State is whether there is such a hold.
type State string

// The states.
const (
	Absent  State = "absent"
	Present State = "present"
)

// Life lists which facts can happen in which state, and the state that follows.
var Life = fsm.Table[State, string]{
	Absent:  {"set": Present},
	Present: {"set": Present, "unset": Absent},
}

// Apply folds a fact into a hold's record, which is nil for an unknown hold, and returns the record after it; nil means
// that the hold is gone. It returns false, and the record unchanged, for a fact that does not fit.
func Apply(have *holdv1.Hold, f ledger.Fact) (*holdv1.Hold, bool) {
	state := Absent
	if have != nil {
		state = Present
	}
	if _, fit := Life.Next(state, f.Name()); !fit {
		return have, false
	}
	b, ok := f.Body.(*holdv1.Set)
	if !ok {
		return nil, true
	}
	return &holdv1.Hold{
		Id: f.Key, Agent: b.Agent, On: b.On, Until: b.Until, Reason: b.Reason,
		SetAt: timestamppb.New(f.At), SetBy: f.Actor,
	}, true
}

// InEffect reports whether a hold's time has not passed.
func InEffect(h *holdv1.Hold, at time.Time) bool {
	return h != nil && (h.Until == nil || at.Before(h.Until.AsTime()))
}

// ID returns the id of the hold of an agent on a selector.
func ID(agent string, on *intentv1.Selector) string {
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(on)
	if err != nil {
		panic(err) // a message of ours always has an encoding
	}
	return ident.From("hold", agent, string(text))
}
