package dispatcher

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/view"
)

// admitAtOnce is the most tasks of one admission.
const admitAtOnce = 500

// admit lets the next tasks go. Only who has the claim does, one admission after another,
// and each begins when the view holds the one before: so the view counts every task that
// is under way, and the limit holds over all dispatchers.
func (d *Dispatcher) admit(ctx context.Context) (time.Duration, error) {
	var tasks []view.Admission
	var claim uint64
	d.fold.Read(func() {
		if claim = d.hold(); claim == 0 {
			return
		}
		for _, t := range d.view.Admissions(d.Concurrency, admitAtOnce) {
			if d.moving.take(t.ID) {
				tasks = append(tasks, t)
			}
		}
	})
	if len(tasks) == 0 {
		return never, nil
	}
	defer func() {
		for _, t := range tasks {
			d.moving.give(t.ID)
		}
	}()
	began := time.Now()
	if err := d.assign(ctx, claim, tasks); err != nil {
		return 0, err
	}
	d.Log.Info().Int(logs.Count, len(tasks)).Dur(logs.Took, time.Since(began)).Msg("tasks assigned")
	return 0, nil
}

// assign records an admission, many facts side by side, and waits until the view holds
// them. A task for which its server's document has no room ends instead.
func (d *Dispatcher) assign(ctx context.Context, claim uint64, tasks []view.Admission) error {
	now, err := d.busNow(ctx, clockAge)
	if err != nil {
		return err
	}
	drafts := make([]ledger.Draft, len(tasks))
	for n, t := range tasks {
		var body proto.Message = &taskv1.Assigned{Deadline: timestamppb.New(now.Add(d.TaskDeadline + t.Extra))}
		if t.Refused != nil {
			body = t.Refused
			d.Log.Warn().Str(logs.Task, t.ID).Str(logs.Code, t.Refused.Code).Str(logs.Reason, t.Refused.Reason).Msg("task refused")
		}
		drafts[n] = under(claim, d.fact(t.ID, body, origin{request: t.Intent, cause: ledger.CausedByFact(t.Cause)}))
	}
	return d.recordUnder(ctx, claim, drafts)
}
