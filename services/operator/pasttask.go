package operator

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// pastTask reads a task from the ledger that the dispatcher does not keep any more. Only a whole id can be looked up
// there; unknown is the error when it is not there either.
func (s *session) pastTask(ctx context.Context, id string, unknown error) (task, error) {
	if !ident.IsUUID(id) {
		s.say("the whole id of a task is looked up in the ledger too")
		return nil, unknown
	}
	conn, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	messages, err := conn.DirectGetFrom(ctx, topology.Ledger, ledger.KeySubject(ledger.Task, id), 1, factsAtOnce)
	if err != nil {
		return nil, err
	}
	var t task
	for _, m := range messages {
		if f, err := ledger.Decode(m.Subject, m.Header, m.Data, m.Sequence); err == nil {
			t = taskAfter(t, f)
		}
	}
	if t == nil {
		return nil, unknown
	}
	s.say("the dispatcher does not keep this task any more; it is shown as the ledger has it")
	return t, nil
}

// taskAfter folds a fact into a task.
func taskAfter(t task, f ledger.Fact) task {
	at := timestamppb.New(f.At)
	if q, ok := f.Body.(*taskv1.Queued); ok && t == nil {
		return &taskv1.Task{
			Id: f.Key, Verb: q.GetVerb(), ServerId: q.GetServerId(), Agent: q.GetAgent(), InstanceId: q.GetInstanceId(),
			Generation: q.GetGeneration(), Attempt: q.GetAttempt(), From: q.GetFrom(), To: q.GetTo(), IntentId: q.GetIntentId(),
			State: taskv1.State_STATE_QUEUED, Since: at, QueuedAt: at, Deadline: q.GetDeadline(),
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
		state, reason = taskv1.State_STATE_EXPIRED, fmt.Sprintf("its deadline passed while it was %s", word(b.GetState()))
	case *taskv1.Superseded:
		state, reason = taskv1.State_STATE_SUPERSEDED, "task "+ident.Short(b.GetByTaskId())+" took its place"
	default:
		return t
	}
	t.State, t.Since, t.Reason, t.Outcome, t.Deadline = state, at, reason, outcome, deadline
	if hasEnded(t) {
		t.Deadline = nil
	}
	return t
}
