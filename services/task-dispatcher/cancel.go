package dispatcher

import (
	"cmp"
	"context"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/decide"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/task"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/report"
)

// cancelTask cancels a queued task. A task that is under way cannot be cancelled: its server
// finishes it or rolls it back.
func (a *api) cancelTask(
	ctx context.Context,
	c bus.Caller,
	q *dispatcherv1.CancelTaskRequest,
) (*dispatcherv1.CancelTaskResponse, error) {
	t, err := a.find(ctx, q.Task)
	if err != nil {
		return nil, err
	}
	cancel := func(ctx context.Context) error { return a.cancel(ctx, decide.By(c), t.Id, q.Reason) }
	if err := a.decider.Retry(ctx, cancel); err != nil {
		return nil, err
	}
	if t, err = a.find(ctx, t.Id); err != nil {
		return nil, err
	}
	return &dispatcherv1.CancelTaskResponse{Task: t}, nil
}

// cancel records that a task is cancelled, if it is still queued. A process that is not the leader
// takes over first, so that no other one admits the task meanwhile.
func (a *api) cancel(ctx context.Context, o decide.Origin, id, reason string) error {
	var t *taskv1.Task
	var claim uint64
	reserved, needed := false, (error)(nil)
	a.follower.Read(func() {
		t, _, _ = a.view.Rows.Task(id)
		s, _ := a.view.Rows.Server(t.GetServerId())
		needed = neededRemoval(t, s)
		claim = a.leader.claim()
		if claim > 0 && needed == nil && t.GetState() == taskv1.State_STATE_QUEUED {
			reserved = a.reserved.reserve(id)
		}
	})
	switch {
	case t.GetState() != taskv1.State_STATE_QUEUED:
		return notQueued(t)
	case needed != nil:
		return needed
	case claim == 0:
		return cmp.Or(a.leader.takeOver(ctx), fault.New(fault.Conflict, "task %s needed a claim first", id))
	case !reserved:
		return fault.New(fault.Conflict, "task %s is leaving the queue", id)
	}
	defer a.reserved.release(id)
	f := a.decider.Fact(o, ledger.Task, id, &taskv1.Cancelled{Reason: report.Reason(reason)})
	_, err := a.decider.Append(ctx, under(claim, f))
	a.leader.doubt(claim, err)
	return err
}

// neededRemoval refuses to cancel a removal without which a server would never be dead or empty.
func neededRemoval(t *taskv1.Task, s *dispatcherv1.ServerRecord) error {
	switch {
	case !task.Removes(t.GetVerb()):
		return nil
	case s.GetResetId() != "":
		return fault.Refusef(fault.Conflict, code.ServerReinstalling,
			"task %s removes agent %q from server %s, which is being reinstalled and is empty only after it",
			t.GetId(), t.GetAgent(), ident.Short(t.GetServerId())).Try("garrison explain " + t.GetServerId())
	case s.GetLife() != serverv1.Life_LIFE_DYING:
		return nil
	}
	return fault.Refusef(fault.Conflict, code.ServerDying,
		"task %s removes agent %q from server %s, which is dying and is dead only after it",
		t.GetId(), t.GetAgent(), ident.Short(t.GetServerId())).
		Try("garrison explain " + t.GetServerId() + "; when the machine is lost: garrison server decommission " +
			t.GetServerId() + " --lost")
}

func notQueued(t *taskv1.Task) error {
	if task.Waits(t) {
		return fault.Refusef(fault.Conflict, code.NotQueued, "task %s waits on its server for the end of a critical "+
			"section, and may go on at any moment; only its server can give it up, before it touches anything",
			t.GetId()).
			Try("garrison cancel " + t.GetIntentId() + ", which withdraws it from every server of the intent")
	}
	try := "garrison watch " + ident.Short(t.GetId())
	if task.Ended(t.GetState()) {
		try = "garrison task show " + ident.Short(t.GetId())
	}
	return fault.Refusef(fault.Conflict, code.NotQueued, "task %s is %s; only a queued task can be cancelled",
		t.GetId(), task.StateOf(t.GetState())).
		Try(try)
}
