package task

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// past reads a task from the ledger that the dispatcher no longer keeps. The ledger is searched by the whole id only.
// When the task is missing there too, past returns unknown.
func past(ctx context.Context, env *cli.Env, id string, unknown error) (display.Task, error) {
	if !ident.IsUUID(id) {
		env.Say("pass the whole id to search the ledger too")
		return nil, unknown
	}
	c, err := env.Client(ctx)
	if err != nil {
		return nil, err
	}
	var t display.Task
	for e, err := range c.Events(ctx, client.Query{Noun: ledger.Task, Key: id}) {
		if err != nil {
			return nil, err
		}
		if e.Unread == nil {
			t = taskAfter(t, e.Fact)
		}
	}
	if t == nil {
		return nil, unknown
	}
	env.Say("the dispatcher no longer keeps this task; it is shown from the ledger")
	return t, nil
}

// taskAfter folds a fact into a task.
func taskAfter(t display.Task, f ledger.Fact) display.Task {
	at := timestamppb.New(f.At)
	if q, ok := f.Body.(*taskv1.Queued); ok && t == nil {
		return &taskv1.Task{
			Id: f.Key, Verb: q.GetVerb(), ServerId: q.GetServerId(), Agent: q.GetAgent(), InstanceId: q.GetInstanceId(),
			Generation: q.GetGeneration(),
			Attempt:    q.GetAttempt(),
			From:       q.GetFrom(),
			To:         q.GetTo(),
			IntentId:   q.GetIntentId(),
			Scan:       q.GetScan(),
			PurgeKept:  q.GetPurgeKept(),
			Ahead:      q.GetAhead(),
			State:      taskv1.State_STATE_QUEUED, Since: at, QueuedAt: at, Deadline: q.GetDeadline(),
		}
	}
	if t == nil {
		return nil
	}
	state, reason, outcome, deadline := taskv1.State_STATE_UNSPECIFIED, "", (*taskv1.Outcome)(nil), t.GetDeadline()
	switch b := f.Body.(type) {
	case *taskv1.Assigned:
		state, deadline, t.AssignedAt = taskv1.State_STATE_ASSIGNED, b.GetDeadline(), at
	case *taskv1.Started:
		state = taskv1.State_STATE_RUNNING
	case *taskv1.Succeeded:
		state, outcome = taskv1.State_STATE_SUCCEEDED, b.GetOutcome()
	case *taskv1.Failed:
		state, outcome = taskv1.State_STATE_FAILED, b.GetOutcome()
	case *taskv1.Undone:
		state, outcome = taskv1.State_STATE_UNDONE, b.GetOutcome()
	case *taskv1.Cancelled:
		state, reason = taskv1.State_STATE_CANCELLED, b.GetReason()
		if b.GetCode() != "" {
			outcome = &taskv1.Outcome{Code: b.GetCode(), Reason: b.GetReason()}
		}
	case *taskv1.Expired:
		state, reason = taskv1.State_STATE_EXPIRED, expiredReason(b)
	case *taskv1.Superseded:
		state, reason = taskv1.State_STATE_SUPERSEDED, "task "+ident.Short(b.GetByTaskId())+" replaced it"
	default:
		return t
	}
	t.State, t.Since, t.Reason, t.Outcome, t.Deadline = state, at, reason, outcome, deadline
	if display.TaskEnded(t) {
		t.Deadline = nil
	}
	return t
}

func expiredReason(b *taskv1.Expired) string {
	if b.GetServerDead() {
		return "the server was given up in state " + output.Word(b.GetState())
	}
	return "its deadline passed in state " + output.Word(b.GetState())
}
