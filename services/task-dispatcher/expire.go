package dispatcher

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/view"
)

const (
	// maxExpired bounds one pass.
	maxExpired = 1000
	// deadlineCheck is how often deadlines are checked at least, so that a disconnect is noticed.
	deadlineCheck = time.Second
	// maxGrace is how long, after a start or a disconnect, deadlines that passed meanwhile do not count
	// yet: until the last server is connected again, plus the time to handle the waiting reports.
	maxGrace = topology.ServerReturns + 30*time.Second
)

// newExpirer returns the pass that ends the tasks whose deadline passed.
func (d *Dispatcher) newExpirer() pass {
	grace := min(maxGrace, d.cfg.TaskDeadline)
	var countsFrom atomic.Pointer[time.Time] // deadlines count from then on
	postpone := func() { from := d.cfg.Now().Add(grace); countsFrom.Store(&from) }
	d.cfg.Conn.OnBack(postpone) // the connection may be lost and back between two checks
	return func(ctx context.Context) (time.Duration, error) {
		defer d.deadlineChecks.Add(1)
		if countsFrom.Load() == nil || !d.cfg.Conn.Connected() {
			postpone()
		}
		if left := countsFrom.Load().Sub(d.cfg.Now()); left > 0 {
			d.leader.overdue.Store(false)
			return min(left, deadlineCheck), nil
		}
		now, err := d.deadlineNow(ctx)
		if err != nil {
			return 0, err
		}
		return d.expire(ctx, now)
	}
}

// deadlineNow returns the time at the bus, measured anew when a deadline seems to have passed.
func (d *Dispatcher) deadlineNow(ctx context.Context) (time.Time, error) {
	now, err := d.clock.now(ctx, clockAge)
	if err != nil {
		return now, err
	}
	var next time.Time
	var more bool
	d.follower.Read(func() { next, more = d.view.Queue.NextDeadline() })
	if !more || next.After(now) {
		return now, nil
	}
	return d.clock.now(ctx, 0)
}

func (d *Dispatcher) expire(ctx context.Context, now time.Time) (time.Duration, error) {
	var overdue []view.Ending
	var next time.Time
	var more bool
	var claim uint64
	others := 0 // how many overdue tasks only the leader may end
	d.follower.Read(func() {
		claim = d.leader.claim()
		all := d.view.Queue.Overdue(now, maxExpired)
		overdue = endable(all, claim)
		others = len(all) - len(overdue)
		overdue = d.reserve(overdue)
		next, more = d.view.Queue.NextDeadline()
	})
	defer d.release(overdue)
	if d.leader.overdue.Swap(others > 0) != (others > 0) {
		d.lanes.wake() // the lane that takes over
	}
	if len(overdue) == 0 {
		if !more {
			return never, nil
		}
		if until := next.Sub(now); until > 0 {
			return min(until, deadlineCheck), nil
		}
		return deadlineCheck, nil // the overdue tasks are the leader's
	}
	if err := d.end(ctx, claim, overdue); err != nil {
		return 0, err
	}
	d.cfg.Log.Warn().Int(logs.Count, len(overdue)).Msg("tasks expired")
	return 0, nil
}

// endable returns the endings that this process may record: those of queued tasks only with a claim.
func endable(endings []view.Ending, claim uint64) (out []view.Ending) {
	for _, e := range endings {
		if claim > 0 || !e.Queued {
			out = append(out, e)
		}
	}
	return out
}
