// Package intent is the life of the noun intent: a request is decided once, and an accepted one
// may be withdrawn once. The registry writes the noun.
//
//	next, fit := intent.Apply(record, fact)
//
// Guarantees:
//
//  1. An intent is decided once. A second decision does not fit.
//  2. Only an accepted intent can be withdrawn, and only once.
package intent

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/fsm"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
)

// maxServers is how many servers a record names; a refresh may be for more.
const maxServers = 1000

// Life lists which facts can happen in which state, and the state that follows.
var Life = fsm.Table[intentv1.State, string]{
	intentv1.State_STATE_UNSPECIFIED: {
		"accepted": intentv1.State_STATE_ACCEPTED, "refused": intentv1.State_STATE_REFUSED,
	},
	intentv1.State_STATE_ACCEPTED:  {"withdrawn": intentv1.State_STATE_WITHDRAWN},
	intentv1.State_STATE_REFUSED:   {},
	intentv1.State_STATE_WITHDRAWN: {},
}

// Apply folds a fact into an intent's record, which is nil for an undecided intent, and returns the
// record after it. Apply may change the record in place. It returns false, and the record
// unchanged, for a fact that does not fit.
func Apply(r *intentv1.Record, f ledger.Fact) (*intentv1.Record, bool) {
	next, fit := Life.Next(r.GetState(), f.Name())
	if !fit {
		return r, false
	}
	switch b := f.Body.(type) {
	case *intentv1.Accepted:
		r = accepted(b)
	case *intentv1.Refused:
		r = &intentv1.Record{Intent: b.Intent, Refusal: b.Refusal}
	case *intentv1.Withdrawn:
		r.State, r.WithdrawnAt = next, timestamppb.New(f.At)
		r.WithdrawnBy, r.WithdrawnReason = f.Actor, b.Reason
		return r, true
	}
	r.Id, r.Actor, r.State, r.DecidedAt = f.Key, f.Actor, next, timestamppb.New(f.At)
	return r, true
}

func accepted(b *intentv1.Accepted) *intentv1.Record {
	return &intentv1.Record{
		Intent: b.Intent, ServerIds: b.ServerIds[:min(maxServers, len(b.ServerIds))],
		Changed: b.Changed, Already: b.Already, PassedOver: b.PassedOver, LeftOut: b.LeftOut,
		Reasons: b.Reasons, TargetsSha256: b.TargetsSha256,
	}
}
