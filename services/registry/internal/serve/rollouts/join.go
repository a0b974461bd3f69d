package rollouts

import (
	"maps"
	"slices"
	"time"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/rolling"
)

// joinShare bounds what looks for servers that join cost: after each one follows a pause of so many times its length.
const joinShare = 50

// look is the last look for servers that join a rollout.
type look struct {
	moved uint64 // how many facts that may bring one had been folded
	next  time.Time
}

// Join returns the fact by which servers join a rollout that came to its selector, or nothing. Unless it must be
// certain it looks again only after facts that may bring one, and not for long. It must run inside Read.
func (w *Work) Join(run rolling.Run, certain bool) []ledger.Draft {
	r, last, moved := run.Rollout, w.looked[run.Rollout.Id], w.moved.Load()
	if rolling.JoinsAt(r, run.At) == 0 || !certain && (last.moved == moved || run.At.Before(last.next)) {
		return nil
	}
	began := time.Now()
	body := rolling.Join(w.records.View, r, intent.Ask{
		ID: r.Id, Actor: r.Actor, Verb: topology.VerbRollout, At: run.At, Secrets: w.records.Secrets,
		Intent: &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: run.Ask}},
	})
	next := run.At.Add(joinShare * time.Since(began))
	if body == nil {
		w.looked[r.Id] = look{moved: moved, next: next}
		return nil
	}
	w.looked[r.Id] = look{next: next} // in case that it is not recorded: whatever comes, it looks again then
	w.joined = len(body.Targets)
	return []ledger.Draft{w.draft(r, body, run.At)}
}

// forgetLooks forgets the looks for rollouts that are over.
func (w *Work) forgetLooks(going []string) {
	maps.DeleteFunc(w.looked, func(id string, _ look) bool { return !slices.Contains(going, id) })
	maps.DeleteFunc(w.rested, func(id string, _ time.Time) bool { return !slices.Contains(going, id) })
}

// joins reports whether servers may still join a rollout that succeeded.
func joins(r *rolloutv1.Rollout, now time.Time) bool {
	return r.State == rolloutv1.State_STATE_SUCCEEDED && rolling.JoinsAt(r, now) > 0
}
