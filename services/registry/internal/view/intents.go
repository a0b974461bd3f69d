package view

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
)

// namedServers is how many servers a record names; a refresh may be for more.
const namedServers = 1000

// keptIntents is how many decided intents are kept. All of them are in the ledger.
const keptIntents = 10_000

func (v *View) applyIntent(f ledger.Fact) bool {
	if r, ok := v.intents.Get(f.Key); ok {
		v.recent.Delete(v.intents.Sequence(f.Key))
		v.intents.Touch(f.Key, f.Sequence)
		v.recent.Set(f.Sequence, f.Key)
		return Withdraw(r, f) // an intent is decided once
	}
	if _, ok := f.Body.(*intentv1.Withdrawn); ok {
		return true // of one that is not kept any more
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
	default:
		return nil
	}
	return r
}

// Withdraw folds the withdrawal of an accepted intent into its record, and reports whether it fits.
func Withdraw(r *intentv1.Record, f ledger.Fact) bool {
	b, ok := f.Body.(*intentv1.Withdrawn)
	if !ok || r.State != intentv1.State_STATE_ACCEPTED {
		return false
	}
	r.State, r.WithdrawnAt = intentv1.State_STATE_WITHDRAWN, timestamppb.New(f.At)
	r.WithdrawnBy, r.WithdrawnReason = f.Actor, b.Reason
	return true
}

// IntentFilter says which intents are meant. Everything that is set must hold.
type IntentFilter struct {
	Actor  string
	State  intentv1.State
	Since  time.Time
	Before uint64 // only those whose last fact is before this place; 0 means all
	Is     func(*intentv1.Intent) bool
}

func (q IntentFilter) matches(r *intentv1.Record) bool {
	return (q.Actor == "" || r.Actor == q.Actor) && (q.State == 0 || r.State == q.State) &&
		!r.DecidedAt.AsTime().Before(q.Since) && (q.Is == nil || q.Is(r.Intent))
}

// Intents returns up to limit intents, the one with the newest fact first, and the place where the rest begins; 0 when
// there is none.
func (v *View) Intents(q IntentFilter, limit int) (out []*intentv1.Record, next uint64) {
	from := uint64(1<<64 - 1)
	if q.Before > 0 {
		from = q.Before - 1
	}
	last := uint64(0)
	v.recent.Descend(from, func(sequence uint64, id string) bool {
		r, ok := v.intents.Get(id)
		if !ok || !q.matches(r) {
			return true
		}
		if len(out) == limit {
			next = last
			return false
		}
		out, last = append(out, r), sequence
		return true
	})
	return out, next
}

// KeptIntents returns how many intents are kept at most, when some may have left the view; otherwise 0.
func (v *View) KeptIntents() uint32 {
	if v.recent.Len() < keptIntents {
		return 0
	}
	return keptIntents
}
