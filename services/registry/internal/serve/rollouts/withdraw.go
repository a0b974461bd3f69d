package rollouts

import (
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

const (
	// mostWithdrawn is how many intents one step withdraws.
	mostWithdrawn = 200
	// withdrawAgain is how long it takes until an intent that the view does not keep is withdrawn once more, when its
	// tasks have not ended by then.
	withdrawAgain = time.Minute
	// mostWithdrew bounds the intents for which that is remembered.
	mostWithdrew = 10_000
)

// released returns intents that a rollout released before it stopped and whose changes may not have begun. It must run
// inside Read.
func (w *Work) released(r *rolloutv1.Rollout) (ids []string) {
	if !rollout.Stopped(r.State) {
		return nil
	}
	states := []rolloutv1.TargetState{rolloutv1.TargetState_TARGET_STATE_REACHED}
	if r.Undoes != "" { // what is queued for a broken server of another rollout is replaced by its way back
		states = append(states, rolloutv1.TargetState_TARGET_STATE_BROKEN)
	}
	seen := map[string]bool{}
	for _, state := range states {
		for t := range w.records.View.TargetsOf(r.Id, state) {
			for _, n := range rollout.Releases(t) {
				if id := t.IntentIds[n]; !seen[id] && w.mayWithdraw(t, n) {
					seen[id], ids = true, append(ids, id)
				}
			}
			if len(ids) >= mostWithdrawn {
				return ids
			}
		}
	}
	return ids
}

// mayWithdraw reports whether the intent of a change may be withdrawn: it is accepted, and on a broken server the
// change waits to begin. Of an intent that the view does not keep, that is all there is to see.
func (w *Work) mayWithdraw(t *rolloutv1.Target, change int) bool {
	id := t.IntentIds[change]
	i, _ := w.records.View.Instance(t.ServerId, t.Changes[change].Agent)
	waits := i.GetIntentId() == id && !i.GetBegun() && !i.GetReverts()
	if in, kept := w.records.View.Intent(id); kept {
		reached := t.State == rolloutv1.TargetState_TARGET_STATE_REACHED
		return in.State == intentv1.State_STATE_ACCEPTED && (reached || waits)
	}
	at, did := w.withdrew[id]
	return waits && (!did || w.records.Now().Sub(at) >= withdrawAgain)
}

// withdraw drafts that what a rollout released before it stopped is withdrawn: the dispatcher ends what no server
// began. It must run inside Read.
func (w *Work) withdraw(r *rolloutv1.Rollout, at time.Time) (drafts []ledger.Draft) {
	reason := "its rollout " + r.Id + " is " +
		strings.ToLower(strings.TrimPrefix(r.State.String(), "STATE_"))
	for _, id := range w.released(r) {
		f := w.records.Own(ledger.Intent, id, &intentv1.Withdrawn{Reason: reason}, ledger.CausedByIntent(r.Id))
		f.At, f.Request, f.ID = at, r.Id, ident.From("rollout", r.Id, "withdrawn", id)
		if _, kept := w.records.View.Intent(id); kept {
			drafts = append(drafts, w.records.Guard(f))
			continue
		}
		drafts = append(drafts, ledger.Free(f)) // no view has its last sequence; to withdraw it twice changes nothing
	}
	return drafts
}

// noteWithdrawn remembers which intents, of those that the view does not keep, these facts withdrew.
func (w *Work) noteWithdrawn(recorded []ledger.Draft) {
	for _, d := range recorded {
		if _, ok := d.Body.(*intentv1.Withdrawn); !ok || d.Guard.Subject != "" {
			continue
		}
		if len(w.withdrew) >= mostWithdrew {
			clear(w.withdrew)
		}
		w.withdrew[d.Key] = d.At
	}
}
