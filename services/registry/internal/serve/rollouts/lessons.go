package rollouts

import (
	"context"
	"slices"
	"time"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

const (
	// enoughLearnt is how many tasks are enough not to look further back, and mostLearnt how many of each outcome are
	// read.
	enoughLearnt = 200
	mostLearnt   = 2000
	// learntFor is how long what was read is used again.
	learntFor = time.Minute
	// assumed is how long a change takes before any was recorded.
	assumed = 20 * time.Second
)

// learnFrom is how far back durations are read, the shortest first: what a fleet does now tells more than last week.
var learnFrom = []time.Duration{time.Hour, 24 * time.Hour, 7 * 24 * time.Hour}

// lessons is what the ends of tasks showed that the ledger recorded lately.
type lessons struct {
	durations []time.Duration // of changes that succeeded, the shortest first; at least one
	fails     float64         // the share of tasks that failed
	tasks     uint32          // how many there were; 0 means that a duration was assumed
}

// median returns the median of the durations.
func (l lessons) median() time.Duration { return l.durations[len(l.durations)/2] }

// learning keeps lessons for a while. It is safe for concurrent use.
type learning struct {
	turn chan struct{} // holds an element while the fields are in use
	at   time.Time
	last lessons
}

// learnt returns the lessons, which are at most a little old.
func (p *Past) learnt(ctx context.Context) (lessons, error) {
	select {
	case p.lessons.turn <- struct{}{}:
		defer func() { <-p.lessons.turn }()
	case <-ctx.Done():
		return lessons{}, fault.New(fault.Unavailable, "the durations of tasks are being read: %w", ctx.Err())
	}
	now := p.records.Now()
	if p.lessons.last.durations != nil && now.Sub(p.lessons.at) < learntFor {
		return p.lessons.last, nil
	}
	next, err := p.learn(ctx, now)
	if err == nil {
		p.lessons.at, p.lessons.last = now, next
	}
	return next, err
}

// learn learns from the shortest of the times back in which enough tasks ended, or from all of the last one.
func (p *Past) learn(ctx context.Context, now time.Time) (l lessons, err error) {
	for _, back := range learnFrom {
		if l, err = p.learnSince(ctx, now.Add(-back)); err != nil || l.tasks >= enoughLearnt {
			break
		}
	}
	return l, err
}

// end is the end of a task.
type end struct {
	at        time.Time
	took      time.Duration // 0 when it is not known
	succeeded bool
}

// learnSince reads the ends of tasks since a time.
func (p *Past) learnSince(ctx context.Context, since time.Time) (_ lessons, err error) {
	var ends []end
	var until time.Time // zero once all are read
	for _, name := range []string{"succeeded", "failed", "undone"} {
		n := 0
		for f := range p.facts(ctx, ledger.FactSubject(ledger.Task, "*", name), since, &err) {
			if n++; n > mostLearnt {
				if until.IsZero() || f.At.Before(until) {
					until = f.At
				}
				break
			}
			e := end{at: f.At}
			if b, ok := f.Body.(*taskv1.Succeeded); ok {
				e.succeeded = true
				for _, step := range b.GetOutcome().GetSteps() {
					e.took += step.GetTook().AsDuration()
				}
			}
			ends = append(ends, e)
		}
		if err != nil {
			return lessons{}, err
		}
	}
	return lessonsOf(ends, until), nil
}

// lessonsOf returns what the ends of tasks show. Those that are not before a time do not count, unless it is zero: from
// there on some were not read, which would make an outcome rarer than it is.
func lessonsOf(ends []end, until time.Time) (l lessons) {
	failed := 0
	for _, e := range ends {
		if !until.IsZero() && !e.at.Before(until) {
			continue
		}
		if l.tasks++; !e.succeeded {
			failed++
		}
		if e.took > 0 {
			l.durations = append(l.durations, e.took)
		}
	}
	if len(l.durations) == 0 {
		l.durations = []time.Duration{assumed}
	}
	slices.Sort(l.durations)
	if l.tasks > 0 {
		l.fails = float64(failed) / float64(l.tasks)
	}
	return l
}
