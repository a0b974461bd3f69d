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

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/declared"
	labelrulev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/labelrule/v1"
)

// Life lists which facts can happen in which state, and the state that follows.
var Life = declared.Table{
	declared.Absent:  {"set": declared.Present},
	declared.Present: {"set": declared.Present, "unset": declared.Absent},
}

// Apply folds a fact into a rule's record, as declared.Set does.
func Apply(have *labelrulev1.LabelRule, f ledger.Fact) (*labelrulev1.LabelRule, bool) {
	return declared.Set(Life, have, f, func(r *labelrulev1.LabelRule) {
		r.Name, r.SetAt, r.SetBy, r.Revision = f.Key, timestamppb.New(f.At), f.Actor, f.Sequence
	})
}
