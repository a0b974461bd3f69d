package rollouts

import (
	"slices"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

// mostWithdrawn is how many intents one step withdraws.
const mostWithdrawn = 200

// released returns intents that a rollout released before it stopped, of which changes may not have begun. It must run
// inside Read.
func (w *Work) released(r *rolloutv1.Rollout) (ids []string) {
	if !rollout.Stopped(r.State) {
		return nil
	}
	for t := range w.records.View.TargetsOf(r.Id, rolloutv1.TargetState_TARGET_STATE_REACHED) {
		for _, id := range rollout.Releases(t) {
			in, _ := w.records.View.Intent(id)
			if in.GetState() == intentv1.State_STATE_ACCEPTED && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
		if len(ids) >= mostWithdrawn {
			break
		}
	}
	return ids
}

// withdraw drafts that what a rollout released before it stopped is withdrawn: the dispatcher ends what no server
// began. It must run inside Read.
func (w *Work) withdraw(r *rolloutv1.Rollout, at time.Time) (drafts []ledger.Draft) {
	reason := "its rollout " + ident.Short(r.Id) + " is " +
		strings.ToLower(strings.TrimPrefix(r.State.String(), "STATE_"))
	for _, id := range w.released(r) {
		f := w.records.Own(ledger.Intent, id, &intentv1.Withdrawn{Reason: reason}, ledger.CausedByIntent(r.Id))
		f.At, f.Request, f.ID = at, r.Id, ident.From("rollout", r.Id, "withdrawn", id)
		drafts = append(drafts, w.records.Guard(f))
	}
	return drafts
}
