package dispatcher

import (
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/noun/task"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/view"
)

const (
	// slowFactor is how many times the median of its step makes a task slow.
	slowFactor = 3
	// minSlow keeps steps of a few milliseconds from being slow: servers report their step once a second.
	minSlow = time.Second
	// minLiveGap is the shortest time between two reports of the same step.
	minLiveGap = 100 * time.Millisecond
	// minSweep is how many entries there are before those of ended tasks are looked for.
	minSweep = 256
)

// liveReport is the last live report of a task.
type liveReport struct {
	progress *taskv1.Progress
	since    time.Time // when the step was first reported
	at       time.Time
}

// liveReports holds the last live report of each task that is under way. It is kept in memory only:
// a restart loses it, and the next report restores it. Only reports of a task's own server are kept,
// so the limit on tasks under way bounds it.
type liveReports struct {
	cfg      Config
	view     *view.View
	follower *fold.Follower
	began    time.Time // nothing that was reported before is known

	mu      sync.Mutex
	last    map[string]liveReport
	sweepAt int // how many entries there are when it is swept next
}

func newLiveReports(cfg Config, v *view.View, follower *fold.Follower) *liveReports {
	return &liveReports{
		cfg: cfg, view: v, follower: follower, began: cfg.Now(), last: map[string]liveReport{}, sweepAt: minSweep,
	}
}

// run receives live reports until ctx is done.
func (l *liveReports) run(ctx context.Context) error {
	stop, err := l.cfg.Conn.Subscribe(topology.LiveSubjects, l.receive)
	if err != nil {
		return err
	}
	defer stop()
	<-ctx.Done()
	return nil
}

// receive keeps one report. It drops what cannot be read or is about a task of another server.
func (l *liveReports) receive(m bus.Message) {
	at, what, err := topology.ParseLiveSubject(m.Subject)
	p := &taskv1.Progress{}
	if err != nil || what != topology.LiveTask || bus.Unmarshal(m, p) != nil {
		return
	}
	now := l.cfg.Now()
	if l.tooSoon(p, now) {
		return
	}
	l.follower.Read(func() {
		if server, ok := l.view.Rows.OnServer(p.TaskId); !ok || server != at.Server {
			return
		}
		l.put(p, now, func(id string) bool { _, ok := l.view.Rows.OnServer(id); return ok })
	})
}

// tooSoon reports whether a server repeats itself faster than anyone reads.
func (l *liveReports) tooSoon(p *taskv1.Progress, now time.Time) bool {
	last, ok := l.get(p.TaskId)
	return ok && last.progress.Step == p.Step && now.Sub(last.at) < minLiveGap
}

func (l *liveReports) get(id string) (liveReport, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, ok := l.last[id]
	return last, ok
}

func (l *liveReports) put(p *taskv1.Progress, now time.Time, underWay func(id string) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	since := now
	if last, ok := l.last[p.TaskId]; ok && last.progress.Step == p.Step {
		since = last.since
	}
	l.last[p.TaskId] = liveReport{progress: p, since: since, at: now}
	if len(l.last) < l.sweepAt {
		return
	}
	for id := range l.last {
		if !underWay(id) {
			delete(l.last, id)
		}
	}
	l.sweepAt = max(minSweep, 2*len(l.last))
}

// fill adds its progress to each task that is under way. It must be called while the view stands
// still.
func (l *liveReports) fill(tasks ...*taskv1.Task) {
	usual := medians{view: l.view, byIntent: map[string]map[taskv1.Step]time.Duration{}}
	for _, t := range tasks {
		if task.UnderWay(t.State) {
			t.Live = l.of(t, usual)
		}
	}
}

// slow returns a function that reports whether a task is slow. It must be called while the view stands still.
func (l *liveReports) slow() func(*taskv1.Task) bool {
	usual := medians{view: l.view, byIntent: map[string]map[taskv1.Step]time.Duration{}}
	return func(t *taskv1.Task) bool { return task.UnderWay(t.State) && l.of(t, usual).Slow }
}

// of returns how far a task is that is under way. It is not slow while its server is offline.
func (l *liveReports) of(t *taskv1.Task, usual medians) *taskv1.Live {
	last, _ := l.get(t.Id)
	live := progressOf(t, last, usual.of, l.began, l.cfg.Now())
	live.Slow = live.Slow && l.view.Rows.OfflineSince(t.ServerId) == nil
	return live
}

// medians finds how long steps usually take.
type medians struct {
	view     *view.View
	byIntent map[string]map[taskv1.Step]time.Duration // of those that were asked for
}

// of returns the median of a task's step: in its own intent, since a new version may take longer than the one before,
// and else in the last changes of its kind.
func (m medians) of(t *taskv1.Task, step taskv1.Step) (time.Duration, bool) {
	own, ok := m.byIntent[t.IntentId]
	if !ok && t.IntentId != "" {
		own = m.view.Listing.Usual(t.IntentId)
		m.byIntent[t.IntentId] = own
	}
	if median, ok := own[step]; ok {
		return median, true
	}
	return m.view.Durations.UsualOfKind(t, step)
}

// progressOf returns how far a task is: at the last reported step, or else since its assignment. A dispatcher that
// began at a later time may have missed the step, so that the task is slow at an unknown one only by the time since
// then.
func progressOf(
	t *taskv1.Task, r liveReport, usual func(*taskv1.Task, taskv1.Step) (time.Duration, bool), began, now time.Time,
) *taskv1.Live {
	l := &taskv1.Live{
		Step: r.progress.GetStep(), DoneBytes: r.progress.GetDoneBytes(), TotalBytes: r.progress.GetTotalBytes(),
		Since: timestamppb.New(r.since),
	}
	from := r.since
	if l.Step == taskv1.Step_STEP_UNSPECIFIED {
		l.Since, from = t.AssignedAt, t.AssignedAt.AsTime()
		if from.Before(began) {
			from = began
		}
	}
	median, ok := usual(t, l.Step)
	if !ok || task.Waits(t) { // it waits for a program, not for itself
		return l
	}
	l.Usual = durationpb.New(median)
	took := now.Sub(from)
	l.Slow = took > slowFactor*median && took > minSlow
	return l
}
