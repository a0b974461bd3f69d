package dispatcher

import (
	"context"
	"slices"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/view"
)

// The rows of each kind in an answer about an intent.
const defaultRows, maxRows = 20, 100

// getIntentProgress counts the changes of an intent. Its cost does not grow with their number.
func (a *api) getIntentProgress(
	ctx context.Context, _ bus.Caller, q *dispatcherv1.GetIntentProgressRequest,
) (*dispatcherv1.GetIntentProgressResponse, error) {
	rows := defaultRows
	if q.Rows > 0 {
		rows = int(min(q.Rows, maxRows))
	}
	r := a.progress(q.IntentId, rows)
	if r == nil || !r.Ended && view.Pending(r.Counts) == 0 { // the registry may have decided it a moment ago
		if err := a.decider.CatchUp(ctx); err != nil {
			return nil, err
		}
		r = a.progress(q.IntentId, rows)
	}
	if r == nil {
		return nil, fault.Refusef(fault.NotFound, code.NotCounted,
			"intent %q changes nothing, or it is not one of the %d that ended last", q.IntentId, view.KeepIntents).
			Try("garrison intent show " + q.IntentId)
	}
	return r, nil
}

// progress returns the progress of an intent; nil when it is not counted.
func (a *api) progress(intent string, rows int) (r *dispatcherv1.GetIntentProgressResponse) {
	a.follower.Read(func() {
		p, ok := a.view.Progress(intent, rows)
		if !ok {
			return
		}
		a.live.fill(p.UnderWay...)
		a.live.fill(p.Tasks...)
		a.explain(p.Tasks...)
		r = &dispatcherv1.GetIntentProgressResponse{
			Counts: p.Record.Counts, Withdrawn: p.Record.WithdrawnSequence > 0, Tasks: p.Tasks, Failures: p.Failures,
			Ended:    p.Record.AcceptedSequence > 0 && view.Pending(p.Record.Counts) == 0,
			Deferred: uint32(p.Deferred), Offline: uint32(p.Away), OfflineTasks: p.Offline,
		}
		slowest := slowFirst(p.UnderWay)
		for r.Slow < uint32(len(slowest)) && slowest[r.Slow].GetLive().GetSlow() {
			r.Slow++
		}
		r.UnderWay = slowest[:min(rows, len(slowest))]
	})
	return r
}

// slowFirst sorts the slow tasks to the front; apart from that the order stays.
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
