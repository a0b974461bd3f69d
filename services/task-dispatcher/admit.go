package dispatcher

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/decide"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/view"
)

// maxAdmitted is the most tasks of one pass.
const maxAdmitted = 500

// admit assigns the next tasks. Only the leader admits, one pass after another, and each begins when
// the view holds the one before: so the view counts every task that is under way, and the limit
// holds over all dispatchers.
func (d *Dispatcher) admit(ctx context.Context) (time.Duration, error) {
	var tasks []view.Admission
	var claim uint64
	now := d.cfg.Now()
	var paused time.Time
	d.follower.Read(func() {
		if claim = d.leader.claim(); claim == 0 {
			return
		}
		for _, t := range d.view.Admissions(now, d.cfg.Concurrency, maxAdmitted) {
			if d.reserved.reserve(t.ID) {
				tasks = append(tasks, t)
			}
		}
		d.view.SetWithin(tasks, d.cfg.bounds())
		paused = d.view.Site.PausedUntil(now)
	})
	switch {
	case len(tasks) > 0:
	case paused.IsZero():
		return never, nil
	default:
		return paused.Sub(now), nil
	}
	defer func() {
		for _, t := range tasks {
			d.reserved.release(t.ID)
		}
	}()
	began := d.cfg.Now()
	if err := d.assign(ctx, claim, tasks); err != nil {
		return 0, err
	}
	d.cfg.Log.Info().Int(logs.Count, len(tasks)).Dur(logs.Took, d.cfg.Now().Sub(began)).Msg("tasks assigned")
	return 0, nil
}

// assign records admissions, many facts side by side, and waits until the view holds them. A task
// for which its server's document has no room ends instead.
func (d *Dispatcher) assign(ctx context.Context, claim uint64, tasks []view.Admission) error {
	now, err := d.clock.now(ctx, clockAge)
	if err != nil {
		return err
	}
	drafts := make([]ledger.Draft, len(tasks))
	for n, t := range tasks {
		var body proto.Message = &taskv1.Assigned{Deadline: timestamppb.New(now.Add(t.Within))}
		if t.Refused != nil {
			body = t.Refused
			d.cfg.Log.Warn().
				Str(logs.Task, t.ID).
				Str(logs.Code, t.Refused.Code).
				Str(logs.Reason, t.Refused.Reason).
				Msg("task refused")
		}
		o := decide.Origin{Request: t.Intent, Cause: ledger.CausedByFact(t.Cause)}
		drafts[n] = under(claim, d.decider.Fact(o, ledger.Task, t.ID, body))
	}
	return d.recordUnder(ctx, claim, drafts)
}
