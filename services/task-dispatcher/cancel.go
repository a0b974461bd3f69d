package dispatcher

import (
	"cmp"
	"context"
	"fmt"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/task"
)

// cancelTask takes a queued task back. One that is under way is not: what a server has
// begun it finishes or undoes.
func (d *Dispatcher) cancelTask(ctx context.Context, c bus.Caller, q *dispatcherv1.CancelTaskRequest) (*dispatcherv1.CancelTaskResponse, error) {
	for {
		moved := d.fold.Changed()
		t, err := d.find(q.Task)
		if err != nil {
			return nil, err
		}
		sequence, err := d.cancel(ctx, c, t.Id, q.Reason)
		if err == nil {
			return d.cancelled(ctx, t.Id, sequence)
		}
		if !fault.Is(err, fault.Conflict) || fault.RefusalOf(err) != nil {
			return nil, err
		}
		select {
		case <-moved: // it was moved meanwhile: see where it is now
		case <-ctx.Done():
			return nil, fault.New(fault.Unavailable, "cancel task %s: %w", t.Id, ctx.Err())
		}
	}
}

// cancel records that a task is cancelled, if it still is queued. Who is asked may not
// have the claim; it then takes it, so that nobody else admits the task meanwhile.
func (d *Dispatcher) cancel(ctx context.Context, c bus.Caller, id, reason string) (sequence uint64, err error) {
	var t *taskv1.Task
	var claim uint64
	taken, dying := false, false
	d.fold.Read(func() {
		t, _, _ = d.view.Task(id)
		s, _ := d.view.Server(t.GetServerId())
		dying = t.GetVerb() == taskv1.Verb_VERB_REMOVE && s.GetLife() == serverv1.Life_LIFE_DYING
		claim = d.hold()
		if claim > 0 && !dying && t.GetState() == taskv1.State_STATE_QUEUED {
			taken = d.moving.take(id)
		}
	})
	switch {
	case t.GetState() != taskv1.State_STATE_QUEUED:
		return 0, notQueued(t)
	case dying:
		return 0, serverDying(t)
	case claim == 0:
		return 0, cmp.Or(d.claim(ctx), fault.New(fault.Conflict, "task %s could not be moved before", id))
	case !taken:
		return 0, fault.New(fault.Conflict, "task %s is being moved", id)
	}
	defer d.moving.give(id)
	body := &taskv1.Cancelled{Reason: task.Sentence(reason)}
	f := d.fact(id, body, origin{actor: c.Actor, request: c.Request, cause: ledger.CausedByRequest(c.Request), trace: c.Trace})
	if sequence, err = d.writer.Append(ctx, under(claim, f)); err != nil {
		d.doubt(claim, err)
		return 0, err
	}
	return sequence, d.fold.Wait(ctx, sequence)
}

func (d *Dispatcher) cancelled(ctx context.Context, id string, sequence uint64) (*dispatcherv1.CancelTaskResponse, error) {
	if err := d.fold.Wait(ctx, sequence); err != nil {
		return nil, err
	}
	t, err := d.find(id)
	if err != nil {
		return nil, err
	}
	return &dispatcherv1.CancelTaskResponse{Task: t}, nil
}

// serverDying refuses to cancel a removal without which a server would stay dying for ever.
func serverDying(t *taskv1.Task) error {
	return fault.Refuse(fault.Conflict, &apiv1.Refusal{
		Code: "SERVER_DYING",
		Message: fmt.Sprintf("task %s removes agent %q from server %s, which is dying and is dead only without it",
			t.GetId(), t.GetAgent(), ident.Short(t.GetServerId())),
		Try: fmt.Sprintf("garrison explain %s; when the machine is lost: garrison server decommission %s --lost",
			t.GetServerId(), t.GetServerId()),
	})
}

func notQueued(t *taskv1.Task) error {
	try := "garrison task wait " + ident.Short(t.GetId())
	if task.Ended(t.GetState()) {
		try = "garrison task show " + ident.Short(t.GetId())
	}
	return fault.Refuse(fault.Conflict, &apiv1.Refusal{
		Code: "NOT_QUEUED", Try: try,
		Message: fmt.Sprintf("task %s is %s; only a queued task can be cancelled", t.GetId(), task.StateOf(t.GetState())),
	})
}
