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
	// expireAtOnce bounds one pass.
	expireAtOnce = 1000
	// lookForDeadlines is how often deadlines are looked at while there are any, at
	// least: so that a bus that was away is noticed.
	lookForDeadlines = time.Second
	// maxGrace is how long the reports that waited are heard, after the dispatcher or
	// the bus was away, before a deadline that passed meanwhile counts: until the last
	// server tries again to reach the bus, and then for what it has to say.
	maxGrace = topology.ServerBackoff + 30*time.Second
)

// newExpirer makes the pass that ends the tasks whose deadline passed.
func (d *Dispatcher) newExpirer() pass {
	grace := min(maxGrace, d.TaskDeadline)
	var countsFrom atomic.Pointer[time.Time] // deadlines count from then on
	spare := func() { from := d.Now().Add(grace); countsFrom.Store(&from) }
	d.Conn.OnBack(spare) // it may be away and back between two looks, or while one waits for it
	return func(ctx context.Context) (time.Duration, error) {
		if countsFrom.Load() == nil || !d.Conn.Connected() {
			spare()
		}
		if left := countsFrom.Load().Sub(d.Now()); left > 0 {
			d.overdue.Store(false)
			return min(left, lookForDeadlines), nil
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
	now, err := d.busNow(ctx, clockAge)
	if err != nil {
		return now, err
	}
	var next time.Time
	var more bool
	d.fold.Read(func() { next, more = d.view.NextDeadline() })
	if !more || next.After(now) {
		return now, nil
	}
	return d.busNow(ctx, 0)
}

func (d *Dispatcher) expire(ctx context.Context, now time.Time) (time.Duration, error) {
	var overdue []view.Ending
	var next time.Time
	var more bool
	var claim uint64
	left := 0 // how many are not for this process to end
	d.fold.Read(func() {
		claim = d.hold()
		all := d.view.Overdue(now, expireAtOnce)
		overdue = endable(all, claim)
		left = len(all) - len(overdue)
		overdue = d.taken(overdue)
		next, more = d.view.NextDeadline()
	})
	defer d.release(overdue)
	if d.overdue.Swap(left > 0) != (left > 0) {
		d.kick() // the lane that claims
	}
	if len(overdue) == 0 {
		if !more {
			return never, nil
		}
		if until := next.Sub(now); until > 0 {
			return min(until, lookForDeadlines), nil
		}
		return lookForDeadlines, nil // what is overdue is with somebody else
	}
	if err := d.end(ctx, claim, overdue); err != nil {
		return 0, err
	}
	d.Log.Warn().Int(logs.Count, len(overdue)).Msg("tasks expired")
	return 0, nil
}

// endable keeps the endings that this process may record: those of queued tasks only with the claim.
func endable(endings []view.Ending, claim uint64) (out []view.Ending) {
	for _, e := range endings {
		if claim > 0 || !e.Queued {
			out = append(out, e)
		}
	}
	return out
}
