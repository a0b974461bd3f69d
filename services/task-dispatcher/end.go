package dispatcher

import (
	"context"
	"errors"
	"time"

	"github.com/garrison-fleet/garrison/pkg/decide"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/view"
)

// maxCleared bounds one pass.
const maxCleared = 2000

// clear ends, as the leader, queued tasks that became outdated. What it leaves is found again by the next pass.
func (d *Dispatcher) clear(ctx context.Context) (time.Duration, error) {
	var endings []view.Ending
	var claim uint64
	d.follower.Read(func() {
		if claim = d.leader.claim(); claim > 0 {
			endings = d.reserve(d.view.Queue.Outdated(maxCleared))
		}
	})
	defer d.release(endings)
	if len(endings) == 0 {
		return never, nil
	}
	if err := d.end(ctx, claim, endings); err != nil {
		return 0, err
	}
	d.cfg.Log.Info().Int(logs.Count, len(endings)).Msg("outdated tasks ended")
	return 0, nil
}

// end ends tasks: queued ones under the claim, the others each guarded by its own key.
func (d *Dispatcher) end(ctx context.Context, claim uint64, endings []view.Ending) error {
	var queued, others []ledger.Draft
	for _, e := range endings {
		o := decide.Origin{Request: e.Intent, Cause: ledger.CausedByClock}
		if e.Cause > 0 {
			o.Cause = ledger.CausedByFact(e.Cause)
		}
		f := d.decider.Fact(o, ledger.Task, e.ID, e.Body)
		if e.Queued {
			queued = append(queued, under(claim, f))
		} else {
			others = append(others, ledger.OnKey(f, e.Guard))
		}
	}
	return errors.Join(d.recordUnder(ctx, claim, queued), d.recorder.record(ctx, others))
}

// recordUnder records facts that are drafted under a claim, and stops relying on the claim when
// the outcome is unknown.
func (d *Dispatcher) recordUnder(ctx context.Context, claim uint64, drafts []ledger.Draft) error {
	err := d.recorder.record(ctx, drafts)
	d.leader.doubt(claim, err)
	return err
}

// reserve returns the endings whose tasks no other lane of this process has reserved.
func (d *Dispatcher) reserve(endings []view.Ending) []view.Ending {
	out := endings[:0]
	for _, e := range endings {
		if d.reserved.reserve(e.ID) {
			out = append(out, e)
		}
	}
	return out
}

func (d *Dispatcher) release(endings []view.Ending) {
	for _, e := range endings {
		d.reserved.release(e.ID)
	}
}
