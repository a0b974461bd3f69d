package dispatcher

import (
	"context"
	"fmt"
	"slices"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/view"
)

// The rows of each kind that an answer about an intent shows.
const defaultRows, maxRows = 20, 100

// getIntentProgress counts the changes of an intent. Its cost does not grow with their number.
func (d *Dispatcher) getIntentProgress(
	ctx context.Context, _ bus.Caller, q *dispatcherv1.GetIntentProgressRequest,
) (*dispatcherv1.GetIntentProgressResponse, error) {
	rows := defaultRows
	if q.Rows > 0 {
		rows = int(min(q.Rows, maxRows))
	}
	r := d.glance(q.IntentId, rows)
	if r == nil || !r.Ended && view.ToCome(r.Counts) == 0 { // the registry may have decided it a moment ago
		if err := d.catchUp(ctx); err != nil {
			return nil, err
		}
		r = d.glance(q.IntentId, rows)
	}
	if r == nil {
		return nil, fault.Refuse(fault.NotFound, &apiv1.Refusal{
			Code: "NOT_COUNTED", Try: "garrison intent show " + q.IntentId,
			Message: fmt.Sprintf("intent %q changes nothing, or it is not one of the %d that ended last",
				q.IntentId, view.KeepIntents),
		})
	}
	return r, nil
}

func (d *Dispatcher) glance(intent string, rows int) (r *dispatcherv1.GetIntentProgressResponse) {
	d.fold.Read(func() {
		g, ok := d.view.Glance(intent, rows)
		if !ok {
			return
		}
		d.enliven(g.UnderWay...)
		d.enliven(g.Tasks...)
		d.explain(g.Tasks...)
		r = &dispatcherv1.GetIntentProgressResponse{
			Counts: g.Record.Counts, Withdrawn: g.Record.WithdrawnSequence > 0, Tasks: g.Tasks, Failures: g.Failures,
			Ended: g.Record.AcceptedSequence > 0 && view.ToCome(g.Record.Counts) == 0,
		}
		slowest := slowFirst(g.UnderWay)
		for r.Slow < uint32(len(slowest)) && slowest[r.Slow].GetLive().GetSlow() {
			r.Slow++
		}
		r.UnderWay = slowest[:min(rows, len(slowest))]
	})
	return r
}

// slowFirst puts the slow tasks first; apart from that the order stays.
func slowFirst(tasks []*taskv1.Task) []*taskv1.Task {
	slices.SortStableFunc(tasks, func(a, b *taskv1.Task) int {
		switch {
		case a.GetLive().GetSlow() == b.GetLive().GetSlow():
			return 0
		case a.GetLive().GetSlow():
			return -1
		}
		return 1
	})
	return tasks
}
