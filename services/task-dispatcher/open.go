package dispatcher

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/view"
)

// openAtOnce bounds one pass, so that what is opened is admitted while the rest is opened.
const openAtOnce = 2000

// open opens the tasks that are due, and ends queued ones that are not wanted any more.
// Whatever it leaves undone it finds again at the next look.
func (d *Dispatcher) open(ctx context.Context) (time.Duration, error) {
	var openings []view.Opening
	var endings []view.Ending
	d.fold.Read(func() {
		openings = d.view.Openings(openAtOnce)
		endings = d.claimed(d.view.Outdated(openAtOnce))
	})
	defer d.release(endings)
	if len(openings)+len(endings) == 0 {
		return never, nil
	}
	until := timestamppb.New(d.Now().Add(d.QueuedDeadline))
	drafts := make([]ledger.Draft, 0, len(openings)+len(endings))
	for _, o := range openings {
		o.Body.Deadline = until
		f := d.fact(o.ID, o.Body, origin{request: o.Body.IntentId, cause: ledger.CausedByFact(o.Cause)})
		drafts = append(drafts, ledger.OnKey(f, o.Guard))
	}
	for _, e := range endings {
		drafts = append(drafts, ledger.OnKey(d.fact(e.ID, e.Body, origin{request: e.Intent, cause: ledger.CausedByFact(e.Cause)}), e.Guard))
	}
	if err := d.record(ctx, drafts); err != nil {
		return 0, err
	}
	d.Log.Info().Int(logs.Count, len(openings)).Int("ended", len(endings)).Msg("tasks opened")
	return 0, nil
}

// claimed keeps the endings whose tasks nobody else of this process is moving.
func (d *Dispatcher) claimed(endings []view.Ending) []view.Ending {
	out := endings[:0]
	for _, e := range endings {
		if d.claims.take(e.ID) {
			out = append(out, e)
		}
	}
	return out
}

func (d *Dispatcher) release(endings []view.Ending) {
	for _, e := range endings {
		d.claims.give(e.ID)
	}
}
