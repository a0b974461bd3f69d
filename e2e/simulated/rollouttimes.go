package simulated

import (
	"context"
	"fmt"
	"time"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/pkg/client"
)

// recordedWithin bounds the wait until what the servers reported is recorded.
const recordedWithin = time.Minute

// times is what the ledger says of a rollout.
type times struct {
	rollout                   string
	derived                   map[string]bool   // the intents that bring its change
	tasks                     map[string]string // the server of a task
	touched                   map[string]bool
	planned, badly, last, end time.Time
	halted                    bool
}

// timeRollout reads from the ledger behind a sequence which servers the rollout touched, and how long it took.
func (r *Runner) timeRollout(ctx context.Context, c *client.Client, id string, from uint64) error {
	t := times{rollout: id, derived: map[string]bool{}, tasks: map[string]string{}, touched: map[string]bool{}}
	for e, err := range c.Events(ctx, client.Query{From: from + 1}) {
		if err != nil {
			return err
		}
		t.fold(e)
	}
	to := &r.rolled
	if to.Touched = len(t.touched); t.end.IsZero() {
		t.end = t.last
	}
	to.Took = t.end.Sub(t.planned)
	if t.halted && !t.badly.IsZero() {
		to.Noticed = t.end.Sub(t.badly)
	}
	return nil
}

// compareTouched compares the servers that the ledger says began to change with those that say so themselves, once the
// facts about those that were under way at a halt are recorded.
func (r *Runner) compareTouched(ctx context.Context, s *Summary) error {
	ctx, cancel := context.WithTimeout(ctx, recordedWithin)
	defer cancel()
	c, err := r.fleet.Client(ctx, 30*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	return rig.Until(ctx, "what the servers did is recorded", func(ctx context.Context) error {
		err := r.timeRollout(ctx, c, r.rolled.id, r.rolled.from)
		if s.Rolled = r.rolled; err == nil && s.Tried[to] != s.Rolled.Touched {
			err = fmt.Errorf("%d servers began to change to %s; the ledger has %d", s.Tried[to], to, s.Rolled.Touched)
		}
		return err
	})
}

func (t *times) fold(e client.Event) {
	switch b := e.Fact.Body.(type) {
	case *intentv1.Accepted:
		t.derived[e.Key] = b.GetIntent().GetSource().GetRolloutId() == t.rollout && b.GetIntent().GetUndo() == nil
	case *taskv1.Queued:
		if t.derived[b.GetIntentId()] {
			t.tasks[e.Key] = b.GetServerId()
		}
	case *taskv1.Started:
		if server := t.tasks[e.Key]; server != "" {
			t.touched[server] = true
		}
	case *taskv1.Failed, *taskv1.Undone, *taskv1.Expired:
		if t.tasks[e.Key] != "" && t.end.IsZero() {
			t.badly = e.StoredAt
		}
	case *rolloutv1.Planned:
		t.planned = e.StoredAt
	case *rolloutv1.Halted:
		t.end, t.halted = e.StoredAt, true
	case *rolloutv1.Succeeded:
		t.end = e.StoredAt
	}
	t.last = e.StoredAt
}
