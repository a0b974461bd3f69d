package view

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
)

// namedServers is how many servers a record names; a refresh may be for more.
const namedServers = 1000

// keptIntents is how many decided intents are kept. All of them are in the ledger.
const keptIntents = 10_000

func (v *View) applyIntent(f ledger.Fact) bool {
	if _, ok := v.intents.Get(f.Key); ok {
		v.recent.Delete(v.intents.Sequence(f.Key))
		v.intents.Touch(f.Key, f.Sequence)
		v.recent.Set(f.Sequence, f.Key)
		return false // an intent is decided once
	}
	r := Record(f)
	if r == nil {
		return false
	}
	v.intents.Put(f.Key, r, f.Sequence)
	v.recent.Set(f.Sequence, f.Key)
	if v.recent.Len() > keptIntents {
		_, oldest, _ := v.recent.PopMin()
		v.intents.Forget(oldest)
	}
	return true
}

// Record gives what a fact says of an intent, or nil when it is not about one.
func Record(f ledger.Fact) *intentv1.Record {
	r := &intentv1.Record{Id: f.Key, Actor: f.Actor, DecidedAt: timestamppb.New(f.At)}
	switch b := f.Body.(type) {
	case *intentv1.Accepted:
		r.State, r.Intent, r.ServerIds = intentv1.State_STATE_ACCEPTED, b.Intent, b.ServerIds[:min(namedServers, len(b.ServerIds))]
		r.Changed, r.Already, r.PassedOver, r.LeftOut = b.Changed, b.Already, b.PassedOver, b.LeftOut
		r.Reasons, r.TargetsSha256 = b.Reasons, b.TargetsSha256
	case *intentv1.Refused:
		r.State, r.Intent, r.Refusal = intentv1.State_STATE_REFUSED, b.Intent, b.Refusal
	case *intentv1.Withdrawn:
		r.State = intentv1.State_STATE_WITHDRAWN
	default:
		return nil
	}
	return r
}
