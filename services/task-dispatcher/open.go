package dispatcher

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/decide"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/view"
)

// maxOpened bounds one pass, so that opened tasks are admitted while the rest is opened.
const maxOpened = 2000

// open opens the tasks that are due, and, as the leader, ends queued tasks that became outdated.
// What it leaves is found again by the next pass.
func (d *Dispatcher) open(ctx context.Context) (time.Duration, error) {
	var openings []view.Opening
	var endings []view.Ending
	var claim uint64
	d.follower.Read(func() {
		openings, claim = d.view.Openings(maxOpened), d.leader.claim()
		if claim > 0 {
			endings = d.reserve(d.view.Outdated(maxOpened))
		}
	})
	defer d.release(endings)
	if len(openings)+len(endings) == 0 {
		return never, nil
	}
	now, err := d.clock.now(ctx, clockAge)
	if err != nil {
		return 0, err
	}
	until := timestamppb.New(now.Add(d.cfg.QueuedDeadline))
	drafts := make([]ledger.Draft, 0, len(openings))
	for _, o := range openings {
		o.Body.Deadline = until
		origin := decide.Origin{Request: o.Body.IntentId, Cause: ledger.CausedByFact(o.Cause)}
		drafts = append(drafts, ledger.OnKey(d.decider.Fact(origin, ledger.Task, o.ID, o.Body), o.Guard))
	}
	if err := errors.Join(d.recorder.record(ctx, drafts), d.end(ctx, claim, endings)); err != nil {
		return 0, err
	}
	d.cfg.Log.Info().Int(logs.Count, len(openings)).Int("ended", len(endings)).Msg("tasks opened")
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
