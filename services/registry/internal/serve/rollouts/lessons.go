package rollouts

import (
	"context"
	"slices"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
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

// history is the ends of tasks that the ledger recorded lately.
type history struct {
	ends []end
	all  lessons // of all of them
}

// learning keeps a history for a while. It is safe for concurrent use.
type learning struct {
	turn chan struct{} // holds an element while the fields are in use
	at   time.Time
	last history
}

// learnt returns the history, which is at most a little old.
func (p *Past) learnt(ctx context.Context) (history, error) {
	select {
	case p.lessons.turn <- struct{}{}:
		defer func() { <-p.lessons.turn }()
	case <-ctx.Done():
		return history{}, fault.New(fault.Unavailable, "the durations of tasks are being read: %w", ctx.Err())
	}
	now := p.records.Now()
	if p.lessons.last.all.durations != nil && now.Sub(p.lessons.at) < learntFor {
		return p.lessons.last, nil
	}
	next, err := p.learn(ctx, now)
	if err == nil {
		p.lessons.at, p.lessons.last = now, next
	}
	return next, err
}

// learn learns from the shortest of the times back in which enough tasks ended, or from all of the last one.
func (p *Past) learn(ctx context.Context, now time.Time) (h history, err error) {
	for _, back := range learnFrom {
		if h.ends, err = p.endsSince(ctx, now.Add(-back)); err != nil || len(h.ends) >= enoughLearnt {
			break
		}
	}
	h.all = lessonsOf(h.ends)
	return h, err
}

// end is the end of a task.
type end struct {
	at        time.Time
	took      time.Duration // 0 when it is not known
	succeeded bool
	refused   bool // it ended before anything ran
	like      like // of which kind it was; empty when that is not known
}

// like is what changes have in common that fail alike: what is done with which image.
type like struct {
	verb  taskv1.Verb
	image string
}

// likeOf returns of which kind a change is. What brings an image is alike, wherever there was another one; so is what
// begins the same again.
func likeOf(from, to *imagev1.Ref, configures bool) like {
	switch {
	case to == nil:
		return like{taskv1.Verb_VERB_REMOVE, from.GetId()}
	case !instance.SameImage(from, to):
		return like{taskv1.Verb_VERB_UPGRADE, to.GetId()}
	case configures:
		return like{taskv1.Verb_VERB_CONFIGURE, to.GetId()}
	}
	return like{taskv1.Verb_VERB_RESTART, to.GetId()}
}

// likeTask returns of which kind a task is; empty for one that no rollout asks for.
func likeTask(q *taskv1.Queued) like {
	switch q.GetVerb() {
	case taskv1.Verb_VERB_UNSPECIFIED, taskv1.Verb_VERB_REFRESH, taskv1.Verb_VERB_ADOPT, taskv1.Verb_VERB_RELEASE:
		return like{}
	}
	return likeOf(q.From, q.To, q.Verb == taskv1.Verb_VERB_CONFIGURE)
}

// endsSince reads the ends of tasks since a time, as far as every one of them is read.
func (p *Past) endsSince(ctx context.Context, since time.Time) (ends []end, err error) {
	var until time.Time // from there on some were not read, which would make an outcome rarer than it is; zero for none
	tasks, kinds := map[string]end{}, map[string]like{}
	for _, name := range []string{"queued", "assigned", "succeeded", "failed", "undone"} {
		n := 0
		for f := range p.facts(ctx, ledger.FactSubject(ledger.Task, "*", name), since, &err) {
			if n++; n > mostLearnt {
				if until.IsZero() || f.At.Before(until) {
					until = f.At
				}
				break
			}
			switch b := f.Body.(type) {
			case *taskv1.Queued:
				kinds[f.Key] = likeTask(b)
			case *taskv1.Assigned:
				if b.Opened != nil {
					kinds[f.Key] = likeTask(b.Opened)
				}
			case interface{ GetOutcome() *taskv1.Outcome }:
				tasks[f.Key] = endOf(f, b.GetOutcome())
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return endsBefore(until, tasks, kinds), nil
}

// endsBefore returns the ends of tasks before a time, or all of them, with their kinds.
func endsBefore(until time.Time, tasks map[string]end, kinds map[string]like) (ends []end) {
	for id, e := range tasks {
		if until.IsZero() || e.at.Before(until) {
			e.like = kinds[id]
			ends = append(ends, e)
		}
	}
	return ends
}

// endOf returns the end of a task that a fact recorded.
func endOf(f ledger.Fact, o *taskv1.Outcome) end {
	e := end{at: f.At}
	if _, e.succeeded = f.Body.(*taskv1.Succeeded); e.succeeded {
		for _, step := range o.GetSteps() {
			e.took += step.GetTook().AsDuration()
		}
		return e
	}
	switch o.GetFailedStep() {
	case taskv1.Step_STEP_CHECK, taskv1.Step_STEP_VERIFY, taskv1.Step_STEP_REHEARSE:
		e.refused = !code.EndsByBuild(o.GetCode())
	}
	return e
}

// like returns what the ends of tasks show that are like changes: with the same images, or else with any image that is
// not bad. What was refused before anything ran shows nothing of what a change does.
func (h history) like(changes map[like]bool, bad map[string]bool) lessons {
	same, verbs := map[bool][]end{}, map[taskv1.Verb]bool{}
	for c := range changes {
		verbs[c.verb] = true
	}
	for _, e := range h.ends {
		if named := changes[e.like]; !e.refused && (named || verbs[e.like.verb] && !bad[e.like.image]) {
			same[named] = append(same[named], e)
		}
	}
	return lessonsOf(same[len(same[true]) > 0])
}

// lessonsOf returns what the ends of tasks show.
func lessonsOf(ends []end) (l lessons) {
	failed := 0
	for _, e := range ends {
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
