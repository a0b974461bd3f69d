// Package labelrule is the life of the noun labelrule: labels that servers get by what their machines are. The registry
// writes the noun.
//
//	next, fit := labelrule.Apply(record, fact)
//
// Guarantees:
//
//  1. A record exists from the first time that a rule is set until it is unset.
package labelrule

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/fsm"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	labelrulev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/labelrule/v1"
)

// State is whether there is such a rule.
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

// Apply folds a fact into a rule's record, which is nil for an unknown rule, and returns the record after it; nil means
// that the rule is gone. It returns false, and the record unchanged, for a fact that does not fit.
func Apply(have *labelrulev1.LabelRule, f ledger.Fact) (*labelrulev1.LabelRule, bool) {
	state := Absent
	if have != nil {
		state = Present
	}
	if _, fit := Life.Next(state, f.Name()); !fit {
		return have, false
	}
	b, ok := f.Body.(*labelrulev1.Set)
	if !ok {
		return nil, true
	}
	return &labelrulev1.LabelRule{
		Name: f.Key, When: b.When, Labels: b.Labels, SetAt: timestamppb.New(f.At), SetBy: f.Actor,
		Revision: f.Sequence, Owners: b.Owners,
	}, true
}
