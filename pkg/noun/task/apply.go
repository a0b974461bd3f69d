package task

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// Fits reports whether a fact can happen to a task, which is nil when it is unknown.
func Fits(t *taskv1.Task, f ledger.Fact) bool {
	switch b := f.Body.(type) {
	case *taskv1.ReportedLate:
		return AwaitsReport(t)
	case *taskv1.Assigned:
		if t == nil && b.Opened == nil {
			return false
		}
	}
	_, fit := Life.Next(StateOf(t.GetState()), f.Name())
	return fit
}

// Opened returns what a task is, from a fact that may open it: that it is queued, or assigned at once; nil from any
// other fact.
func Opened(body proto.Message) *taskv1.Queued {
	switch b := body.(type) {
	case *taskv1.Queued:
		return b
	case *taskv1.Assigned:
		return b.Opened
	}
	return nil
}

// Apply folds a fact into a task's record, which is nil for an unknown task, and returns the record
// after it. Apply may change the record in place. It returns false, and the record unchanged, for a
// fact that does not fit.
func Apply(t *taskv1.Task, f ledger.Fact) (*taskv1.Task, bool) {
	if !Fits(t, f) {
		return t, false
	}
	if late, ok := f.Body.(*taskv1.ReportedLate); ok {
		t.Reported, t.Outcome = late.State, late.Outcome
		t.Reason += fmt.Sprintf("; its server said later that it %s", phrase(late.State))
		return t, true
	}
	at := timestamppb.New(f.At)
	if q := Opened(f.Body); q != nil && t == nil {
		t = &taskv1.Task{
			Id: f.Key, Verb: q.Verb, ServerId: q.ServerId, Agent: q.Agent, InstanceId: q.InstanceId,
			Generation: q.Generation, Attempt: q.Attempt, From: q.From, To: q.To, IntentId: q.IntentId,
			QueuedAt: at, Deadline: q.Deadline, Scan: q.Scan, PurgeKept: q.PurgeKept, Ahead: q.Ahead,
		}
	}
	if moveDeferral(t, f.Body, at) {
		return t, true
	}
	before := StateOf(t.State)
	next, _ := Life.Next(before, f.Name())
	t.State, t.Since = next.Proto(), at
	t.Reason, t.Outcome = explanation(f, before)
	if a, ok := f.Body.(*taskv1.Assigned); ok {
		t.Deadline, t.AssignedAt = a.Deadline, at
	}
	if Ended(t.State) {
		t.Deadline = nil
	}
	return t, true
}

// moveDeferral applies a fact about the wait of a task that runs. It reports whether the fact is one.
func moveDeferral(t *taskv1.Task, body proto.Message, at *timestamppb.Timestamp) bool {
	switch b := body.(type) {
	case *taskv1.Deferred:
		t.Deferral = proto.CloneOf(b.GetDeferral())
		if t.Deferral == nil {
			t.Deferral = &taskv1.Deferral{}
		}
		t.Deferral.Since, t.Deferral.ResumedAt, t.Deferral.Overrun = at, nil, false
		t.Deadline = b.Deadline
		t.Reason = fmt.Sprintf("%s: %s; it goes on by %s at the latest", t.Deferral.Code, t.Deferral.Reason,
			t.Deferral.GetUntil().AsTime().UTC().Format(time.RFC3339))
		return true
	case *taskv1.Resumed:
		t.Deadline, t.Reason = b.Deadline, ""
		if d := t.Deferral; d != nil {
			d.ResumedAt, d.Overrun = at, b.Overrun
			if d.Overrun {
				t.Reason = "it went on at its limit, during " + d.Reason
			}
		}
		return true
	}
	return false
}

// Removes reports whether a task ends its instance.
func Removes(verb taskv1.Verb) bool {
	return verb == taskv1.Verb_VERB_REMOVE || verb == taskv1.Verb_VERB_RELEASE
}

// explanation returns why a task is in the state that a fact brought it to, and its outcome.
func explanation(f ledger.Fact, before State) (reason string, outcome *taskv1.Outcome) {
	switch b := f.Body.(type) {
	case *taskv1.Succeeded:
		return "", b.Outcome
	case *taskv1.Failed:
		return b.Outcome.GetReason(), b.Outcome
	case *taskv1.Undone:
		return b.Outcome.GetReason(), b.Outcome
	case *taskv1.Cancelled:
		if b.Code != "" {
			outcome = &taskv1.Outcome{Code: b.Code, Reason: b.Reason}
		}
		return b.Reason, outcome
	case *taskv1.Expired:
		if b.ServerDead {
			return fmt.Sprintf("the server was given up while it was %s", before), nil
		}
		return fmt.Sprintf("its deadline passed while it was %s", before), nil
	case *taskv1.Superseded:
		return "task " + ident.Short(b.ByTaskId) + " took its place", nil
	}
	return "", nil
}

// phrase returns how a task ended, as the end of a sentence.
func phrase(s taskv1.State) string {
	if s == taskv1.State_STATE_UNDONE {
		return "was undone"
	}
	return string(StateOf(s))
}
