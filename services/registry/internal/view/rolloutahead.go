package view

import (
	"cmp"
	"iter"
	"slices"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/window"
	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

// Servers that may not be changed yet fetch ahead what a rollout brings them. That moves no target.

// rolloutAhead folds the answer to an intent that has servers fetch an image ahead.
func (v *reach) rolloutAhead(r *rolloutv1.Rollout, servers []string, f ledger.Fact) {
	for _, id := range servers {
		v.editTarget(r, id, f, func(t *rolloutv1.Target) { rollout.Primed(r, t, f.At) })
	}
}

// primed folds that servers were asked to fetch ahead. The answers to the intents, which come first, name all of them
// but those that were left out.
func (v *reach) primed(r *rolloutv1.Rollout, servers []string, f ledger.Fact) {
	why := refusal(ledger.Registry, code.ChangedSince, "it changed since the plan was made")
	for _, id := range servers {
		v.editTarget(r, id, f, func(t *rolloutv1.Target) { rollout.NotPrimed(r, t, f.At, why) })
	}
}

// aheadTask folds the end of a task that fetches an image ahead. One of a rollout that was aborted counts for no other
// that brings the same image; of an intent that has left the view only the image is known.
func (v *reach) aheadTask(task *taskv1.Task, f ledger.Fact) {
	of := row(v.intents, task.IntentId).GetIntent().GetSource().GetRolloutId()
	v.onTargets(task.ServerId, func(r *rolloutv1.Rollout, t *rolloutv1.Target) {
		if of != "" && of != r.Id {
			return
		}
		brought := slices.ContainsFunc(rollout.Brings(t), func(image *imagev1.Ref) bool {
			return image.Id == task.Ahead.GetImage().GetId()
		})
		if brought {
			v.editTarget(r, t.ServerId, f, func(t *rolloutv1.Target) { rollout.AheadEnded(r, t, aheadReason(task)) })
		}
	})
}

// aheadReason returns why a task did not fetch an image ahead; nil when it did.
func aheadReason(t *taskv1.Task) *apiv1.Refusal {
	o := t.GetOutcome()
	switch t.State {
	case taskv1.State_STATE_SUCCEEDED:
		return nil
	case taskv1.State_STATE_EXPIRED:
		return refusal(ledger.Dispatcher, code.ChangeExpired, "it was not fetched before the deadline")
	case taskv1.State_STATE_CANCELLED, taskv1.State_STATE_SUPERSEDED:
		return refusal(ledger.Dispatcher, cmp.Or(o.GetCode(), code.ChangedSince), t.Reason)
	}
	return refusal(executor, o.GetCode(), o.GetReason())
}

// aheadAway folds that a server can no longer fetch ahead: it is offline or shut out, or goes.
func (v *reach) aheadAway(r *rolloutv1.Rollout, t *rolloutv1.Target) {
	why := refusal(ledger.Registry, code.AwayAtItsTurn, "the server went before it had fetched everything")
	for t.AheadLeft > 0 {
		rollout.AheadEnded(r, t, why)
	}
}

// Unprimed returns the pending targets that were not asked to fetch ahead, by server.
func (v *orders) Unprimed(id string) iter.Seq[*rolloutv1.Target] {
	return v.targetsIn(groupUnprimed(id), id, "")
}

// FetchesAhead reports whether the servers of any environment fetch ahead what rollouts bring them.
func (v *orders) FetchesAhead() bool {
	for _, e := range v.environments.All() {
		if window.FetchesAhead(e) {
			return true
		}
	}
	return false
}
