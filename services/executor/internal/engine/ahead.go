package engine

import (
	"context"
	"errors"
	"time"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/deadline"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/steps"
	"github.com/garrison-fleet/garrison/services/executor/internal/store"
)

// ahead fetches what a document asks for ahead of a change, one image at a time and beside the loop. No agent changes:
// only the task of a change does that, which the document does not have yet. Its methods are called by the loop's
// goroutine.
type ahead struct {
	steps   steps.Ahead
	tasks   tasks
	spawn   func(func())
	answers chan<- answer
	busy    bool
}

// fetchedAhead is how the fetching of an image ended.
type fetchedAhead struct {
	request *desiredv1.Request
	took    []*taskv1.StepTime
	failure *change.Failure
}

func isAhead(q *desiredv1.Request) bool { return q.GetAhead() != nil }

// begin begins with the next image that a document asks for, unless one is under way.
func (a *ahead) begin(ctx context.Context, d *desiredv1.Document) error {
	if a.busy {
		return nil
	}
	due, err := a.tasks.open(d, isAhead)
	if err != nil || len(due) == 0 {
		return err
	}
	a.busy = true
	q := due[0]
	a.spawn(func() {
		until := deadline.Own(time.Now(), q.GetDeadline().AsTime(), deadline.Margin(nil, nil), forwardWithin)
		within, cancel := context.WithDeadline(ctx, until)
		defer cancel()
		took, failure := a.steps.Do(within, q.GetTaskId(), q.GetAhead())
		if ctx.Err() != nil {
			return // the next start does it again
		}
		select {
		case a.answers <- func(ctx context.Context, d *desiredv1.Document) error {
			return a.answer(ctx, d, fetchedAhead{q, took, failure})
		}:
		case <-ctx.Done():
		}
	})
	return nil
}

// answer keeps an image that was fetched ahead, reports how that ended and begins with the next one.
func (a *ahead) answer(ctx context.Context, d *desiredv1.Document, r fetchedAhead) error {
	a.busy = false
	id := r.request.GetTaskId()
	err := a.tasks.reports.journal.Update(func(tx *journal.Tx) error {
		if ended, err := tx.Ended(id); err != nil || ended != nil {
			return err
		}
		if f := r.failure; f != nil {
			o := &taskv1.Outcome{FailedStep: f.Step, Code: f.Code, Reason: f.Reason, Steps: r.took}
			return a.tasks.end(tx, id, taskv1.State_STATE_FAILED, o)
		}
		return errors.Join(
			store.KeepAhead(tx, r.request.GetAhead(), r.request.GetKeepUntil().AsTime()),
			a.tasks.end(tx, id, taskv1.State_STATE_SUCCEEDED, &taskv1.Outcome{Steps: r.took}))
	})
	if err != nil {
		return err
	}
	return a.begin(ctx, d)
}
