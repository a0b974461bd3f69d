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

const (
	// maxAdmitted is the most tasks that one pass assigns.
	maxAdmitted = 500
	// maxOpened is the most tasks that one pass puts into the queue: the next pass assigns what became free meanwhile.
	maxOpened = 250
)

// work is what one pass of admit records, all of it under one claim.
type work struct {
	claim    uint64
	assigned []view.Admission
	queued   []view.Opening // those that are due and wait for something
}

func (w work) empty() bool { return len(w.assigned)+len(w.queued) == 0 }

// admit assigns the next tasks, and puts those into the queue that are due and have to wait. Only the leader admits,
// one pass after another, and each begins when the view holds the one before: so the view counts every task that is
// under way, and the limit holds over all dispatchers.
func (d *Dispatcher) admit(ctx context.Context) (time.Duration, error) {
	now := d.cfg.Now()
	var w work
	var paused time.Time
	d.follower.Read(func() {
		if claim := d.leader.claim(); claim > 0 {
			w = d.next(claim, now)
			paused = d.view.Site.PausedUntil(now)
		}
	})
	switch {
	case !w.empty():
	case paused.IsZero():
		return never, nil
	default:
		return paused.Sub(now), nil
	}
	defer func() {
		for _, t := range w.assigned {
			d.reserved.release(t.ID)
		}
	}()
	if err := d.record(ctx, w); err != nil {
		return 0, err
	}
	d.cfg.Log.Info().Int(logs.Count, len(w.assigned)).Int("queued", len(w.queued)).Dur(logs.Took, d.cfg.Now().Sub(now)).
		Msg("tasks assigned")
	return 0, nil
}

// next returns the work that is due at a time. It must be called while the view stands still.
func (d *Dispatcher) next(claim uint64, now time.Time) work {
	w := work{claim: claim}
	all := d.view.Queue.Admissions(now, d.cfg.Concurrency, maxAdmitted)
	for _, t := range all {
		if d.reserved.reserve(t.ID) {
			w.assigned = append(w.assigned, t)
		}
	}
	d.view.Durations.SetWithin(w.assigned, d.cfg.bounds())
	if len(all) < maxAdmitted { // otherwise the next pass assigns more of what is due
		w.queued = waiting(d.view.Queue.Openings(maxOpened+len(all)), w.assigned)
	}
	return w
}

// waiting returns the openings of the tasks that are not assigned in the same pass.
func waiting(openings []view.Opening, assigned []view.Admission) (out []view.Opening) {
	at := make(map[string]bool, len(assigned))
	for _, t := range assigned {
		at[t.ID] = true
	}
	for _, o := range openings {
		if !at[o.ID] {
			out = append(out, o)
		}
	}
	return out
}

// record records work, many facts side by side, and waits until the view holds them.
func (d *Dispatcher) record(ctx context.Context, w work) error {
	now, err := d.clock.now(ctx, clockAge)
	if err != nil {
		return err
	}
	drafts := make([]ledger.Draft, 0, len(w.assigned)+len(w.queued))
	draft := func(id, intent string, cause uint64, body proto.Message) {
		o := decide.Origin{Request: intent, Cause: ledger.CausedByFact(cause)}
		drafts = append(drafts, under(w.claim, d.decider.Fact(o, ledger.Task, id, body)))
	}
	for _, t := range w.assigned {
		draft(t.ID, t.Intent, t.Cause, d.assignment(t, now))
	}
	until := timestamppb.New(now.Add(d.cfg.QueuedDeadline))
	for _, o := range w.queued {
		o.Body.Deadline = until
		draft(o.ID, o.Body.IntentId, o.Cause, o.Body)
	}
	return d.recordUnder(ctx, w.claim, drafts)
}

// assignment returns the fact that assigns a task. A task for which its server's document has no room ends instead.
func (d *Dispatcher) assignment(t view.Admission, now time.Time) proto.Message {
	if t.Refused == nil {
		return &taskv1.Assigned{Deadline: timestamppb.New(now.Add(t.Within)), Opened: t.Opened}
	}
	d.cfg.Log.Warn().
		Str(logs.Task, t.ID).
		Str(logs.Code, t.Refused.Code).
		Str(logs.Reason, t.Refused.Reason).
		Msg("task refused")
	return t.Refused
}
