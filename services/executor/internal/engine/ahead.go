package engine

import (
	"context"
	"time"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/deadline"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/steps"
	"github.com/garrison-fleet/garrison/services/executor/internal/store"
)

func isAhead(q *desiredv1.Request) bool { return q.GetAhead() != nil }

// fetchAhead returns what fetches the image of a request ahead of a change. No agent changes: only the task of a change
// does that, which the document does not have yet.
func fetchAhead(of steps.Ahead) func(context.Context, *desiredv1.Request) reply {
	return func(ctx context.Context, q *desiredv1.Request) reply {
		until := deadline.Own(time.Now(), q.GetDeadline().AsTime(), deadline.Margin(nil, nil), forwardWithin)
		within, cancel := context.WithDeadline(ctx, until)
		defer cancel()
		took, failure := of.Do(within, q.GetTaskId(), q.GetAhead())
		return func(tx *journal.Tx) (taskv1.State, *taskv1.Outcome, error) {
			if failure != nil {
				o := failed(failure)
				o.Steps = took
				return taskv1.State_STATE_FAILED, o, nil
			}
			err := store.KeepAhead(tx, q.GetAhead(), q.GetKeepUntil().AsTime())
			return taskv1.State_STATE_SUCCEEDED, &taskv1.Outcome{Steps: took}, err
		}
	}
}
