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
	"cmp"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/declared"
	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
)

// Life lists which facts can happen in which state, and the state that follows.
var Life = declared.Table{
	declared.Absent:  {"set": declared.Present},
	declared.Present: {"set": declared.Present, "unset": declared.Absent},
}

// Apply folds a fact into a hold's record, as declared.Set does. A hold that is in effect keeps its reason when it is
// set without one.
func Apply(have *holdv1.Hold, f ledger.Fact) (*holdv1.Hold, bool) {
	return declared.Set(Life, have, f, func(h *holdv1.Hold) {
		h.Id, h.SetAt, h.SetBy, h.Reason = f.Key, timestamppb.New(f.At), f.Actor, f.Note
		if InEffect(have, f.At) {
			h.Reason = cmp.Or(f.Note, have.Reason)
		}
	})
}

// InEffect reports whether a hold's time has not passed.
func InEffect(h *holdv1.Hold, at time.Time) bool {
	return h != nil && (h.Until == nil || at.Before(h.Until.AsTime()))
}

// LongestPause is how long a pause of the site may last. A longer one is a mistyped time.
const LongestPause = 31 * 24 * time.Hour

// Site selects the servers of a pause of the site: the hold of every agent.
func Site() *intentv1.Selector { return &intentv1.Selector{All: true} }

// ID returns the id of the hold of an agent on a selector; with agent "" and Site, that of a pause of the site.
func ID(agent string, on *intentv1.Selector) string {
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(on)
	if err != nil {
		panic(err) // a message of ours always has an encoding
	}
	return ident.From("hold", agent, string(text))
}
