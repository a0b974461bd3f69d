package view

import (
	"iter"
	"strconv"
	"time"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/intent"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
)

// keptIntents is how many decided intents the view keeps. The ledger has all of them.
const keptIntents = 10_000

func (v *View) applyIntent(f ledger.Fact) bool {
	have, known := v.intents.Get(f.Key)
	next, fit := intent.Apply(have, f)
	if known {
		v.recent.Delete(v.intents.Sequence(f.Key))
		v.intents.Touch(f.Key, f.Sequence)
		v.recent.Set(f.Sequence, f.Key)
		return fit
	}
	if _, ok := f.Body.(*intentv1.Withdrawn); ok {
		return true // of an intent that has left the view
	}
	if !fit {
		return false
	}
	v.rolloutIntent(f)
	v.intents.Put(f.Key, next, f.Sequence)
	v.recent.Set(f.Sequence, f.Key)
	if v.recent.Len() > keptIntents {
		_, oldest, _ := v.recent.PopMin()
		v.intents.Forget(oldest)
	}
	return true
}

// IntentFilter selects intents. All fields that are set must match.
type IntentFilter struct {
	Actor  string
	State  intentv1.State
	Since  time.Time
	Before uint64 // only those whose last fact is before this sequence; 0 means all
	Is     func(*intentv1.Intent) bool
}

func (q IntentFilter) matches(r *intentv1.Record) bool {
	return (q.Actor == "" || r.Actor == q.Actor) && (q.State == 0 || r.State == q.State) &&
		!r.DecidedAt.AsTime().Before(q.Since) && (q.Is == nil || q.Is(r.Intent))
}

// orders finds intents and rollouts.
type orders struct{ *tables }

// Intents returns the intents that pass the filter, by the sequence of their newest fact, which comes first.
func (v *orders) Intents(q IntentFilter) iter.Seq2[string, *intentv1.Record] {
	from := uint64(1<<64 - 1)
	if q.Before > 0 {
		from = q.Before - 1
	}
	return func(yield func(string, *intentv1.Record) bool) {
		v.recent.Descend(from, func(sequence uint64, id string) bool {
			r, ok := v.intents.Get(id)
			return !ok || !q.matches(r) || yield(strconv.FormatUint(sequence, 10), r)
		})
	}
}

// KeptIntents returns the limit on kept intents when some may have left the view; otherwise 0.
func (v *orders) KeptIntents() uint32 {
	if v.recent.Len() < keptIntents {
		return 0
	}
	return keptIntents
}
