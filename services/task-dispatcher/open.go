package dispatcher

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/view"
)

// openAtOnce bounds one pass, so that what is opened is admitted while the rest is opened.
const openAtOnce = 2000

// open opens the tasks that are due, and, with the claim, ends queued ones that are not
// wanted any more. Whatever it leaves undone it finds again at the next look.
func (d *Dispatcher) open(ctx context.Context) (time.Duration, error) {
	var openings []view.Opening
	var endings []view.Ending
	var claim uint64
	d.fold.Read(func() {
		openings, claim = d.view.Openings(openAtOnce), d.hold()
		if claim > 0 {
			endings = d.taken(d.view.Outdated(openAtOnce))
		}
	})
	defer d.release(endings)
	if len(openings)+len(endings) == 0 {
		return never, nil
	}
	now, err := d.busNow(ctx, clockAge)
	if err != nil {
		return 0, err
	}
	until := timestamppb.New(now.Add(d.QueuedDeadline))
	drafts := make([]ledger.Draft, 0, len(openings))
	for _, o := range openings {
		o.Body.Deadline = until
		f := d.fact(o.ID, o.Body, origin{request: o.Body.IntentId, cause: ledger.CausedByFact(o.Cause)})
		drafts = append(drafts, ledger.OnKey(f, o.Guard))
	}
	if err := errors.Join(d.record(ctx, drafts), d.end(ctx, claim, endings)); err != nil {
		return 0, err
	}
	d.Log.Info().Int(logs.Count, len(openings)).Int("ended", len(endings)).Msg("tasks opened")
	return 0, nil
}

// end ends tasks: the queued ones under the claim, the others each guarded by its own key.
func (d *Dispatcher) end(ctx context.Context, claim uint64, endings []view.Ending) error {
	var queued, others []ledger.Draft
	for _, e := range endings {
		o := origin{request: e.Intent, cause: ledger.CausedByClock}
		if e.Cause > 0 {
			o.cause = ledger.CausedByFact(e.Cause)
		}
		f := d.fact(e.ID, e.Body, o)
		if e.Queued {
			queued = append(queued, under(claim, f))
		} else {
			others = append(others, ledger.OnKey(f, e.Guard))
		}
	}
	return errors.Join(d.recordUnder(ctx, claim, queued), d.record(ctx, others))
}

// taken keeps the endings whose tasks nobody else of this process is moving.
func (d *Dispatcher) taken(endings []view.Ending) []view.Ending {
	out := endings[:0]
	for _, e := range endings {
		if d.moving.take(e.ID) {
			out = append(out, e)
		}
	}
	return out
}

func (d *Dispatcher) release(endings []view.Ending) {
	for _, e := range endings {
		d.moving.give(e.ID)
	}
}
