package dispatcher

import (
	"context"
	"fmt"
	"slices"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/view"
)

// The rows of each kind in an answer: of an intent without a number, and of all intents together.
const defaultRows, maxRows = 20, 100

// mostIntents is how many intents one request names.
const mostIntents = 100

// getIntentProgress counts the changes of intents. Its cost does not grow with their number.
func (a *api) getIntentProgress(
	ctx context.Context, _ bus.Caller, q *dispatcherv1.GetIntentProgressRequest,
) (*dispatcherv1.GetIntentProgressResponse, error) {
	if n := len(q.IntentIds); n == 0 || n > mostIntents {
		return nil, fault.Refusef(fault.Invalid, code.Malformed, "name 1 to %d intents, not %d", mostIntents, n)
	}
	rows := defaultRows
	if q.Rows > 0 {
		rows = int(q.Rows)
	}
	rows = min(rows, maxRows/len(q.IntentIds))
	all := a.progress(q.IntentIds, rows)
	if slices.ContainsFunc(all, undecided) { // the registry may have decided it a moment ago
		if err := a.decider.CatchUp(ctx); err != nil {
			return nil, err
		}
		all = a.progress(q.IntentIds, rows)
	}
	return &dispatcherv1.GetIntentProgressResponse{Intents: all}, nil
}

// undecided reports whether a newer fact may say more of an intent.
func undecided(p *dispatcherv1.IntentProgress) bool {
	return p.Refusal != nil || !p.Ended && view.Pending(p.Counts) == 0
}

// progress returns the progress of each intent.
func (a *api) progress(intents []string, rows int) (all []*dispatcherv1.IntentProgress) {
	a.follower.Read(func() {
		for _, id := range intents {
			all = append(all, a.progressOf(id, rows))
		}
	})
	return all
}

// progressOf returns the progress of an intent, or the refusal of one that is not counted. It must run inside Read.
func (a *api) progressOf(intent string, rows int) *dispatcherv1.IntentProgress {
	p, ok := a.view.Listing.Progress(intent, rows)
	if !ok {
		return &dispatcherv1.IntentProgress{Refusal: &apiv1.Refusal{
			Code: code.NotCounted, Try: "garrison intent show " + intent, Message: fmt.Sprintf(
				"intent %q changes nothing, or it is not one of the %d that ended last", intent, view.KeepIntents),
		}}
	}
	a.live.fill(p.UnderWay...)
	a.live.fill(p.Tasks...)
	a.explain(p.Tasks...)
	r := &dispatcherv1.IntentProgress{
		Counts: p.Record.Counts, Withdrawn: p.Record.WithdrawnSequence > 0, Tasks: p.Tasks, Failures: p.Failures,
		Ended:    p.Record.AcceptedSequence > 0 && view.Pending(p.Record.Counts) == 0,
		Deferred: uint32(p.Deferred), Offline: uint32(p.Away), OfflineTasks: p.Offline,
	}
	slowest := slowFirst(p.UnderWay)
	for r.Slow < uint32(len(slowest)) && slowest[r.Slow].GetLive().GetSlow() {
		r.Slow++
	}
	r.UnderWay = slowest[:min(rows, len(slowest))]
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
