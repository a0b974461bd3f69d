package dispatcher

import (
	"context"
	"time"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/view"
)

const (
	// expireAtOnce bounds one pass.
	expireAtOnce = 1000
	// lookForDeadlines is how often deadlines are looked at while there are any, at
	// least: so that a bus that was away is noticed.
	lookForDeadlines = time.Second
	// maxGrace is how long the reports that waited are heard, after the dispatcher or
	// the bus was away, before a deadline that passed meanwhile counts.
	maxGrace = 30 * time.Second
)

// newExpirer makes the pass that ends the tasks whose deadline passed.
func (d *Dispatcher) newExpirer() pass {
	grace := min(maxGrace, d.TaskDeadline)
	var countsFrom time.Time // deadlines count from then on
	return func(ctx context.Context) (time.Duration, error) {
		now := d.Now()
		if countsFrom.IsZero() || !d.Conn.Connected() {
			countsFrom = now.Add(grace)
		}
		if now.Before(countsFrom) {
			return min(countsFrom.Sub(now), lookForDeadlines), nil
		}
		return d.expire(ctx, now)
	}
}

func (d *Dispatcher) expire(ctx context.Context, now time.Time) (time.Duration, error) {
	var overdue []view.Ending
	var next time.Time
	var more bool
	d.fold.Read(func() {
		overdue = d.claimed(d.view.Overdue(now, expireAtOnce))
		next, more = d.view.NextDeadline()
	})
	defer d.release(overdue)
	if len(overdue) == 0 {
		if !more {
			return never, nil
		}
		return min(max(next.Sub(now), time.Millisecond), lookForDeadlines), nil
	}
	drafts := make([]ledger.Draft, 0, len(overdue))
	for _, e := range overdue {
		drafts = append(drafts, ledger.OnKey(d.fact(e.ID, e.Body, origin{request: e.Intent, cause: ledger.CausedByClock}), e.Guard))
	}
	if err := d.record(ctx, drafts); err != nil {
		return 0, err
	}
	d.Log.Warn().Int(logs.Count, len(overdue)).Msg("tasks expired")
	return 0, nil
}
