package report

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/noun/task"
)

// Deferrable is what a decision needs to know beside a task that its server may defer.
type Deferrable struct {
	Now      time.Time     // by the clock of the bus
	Busy     time.Duration // how long a change on its server waits at most
	UnderWay time.Duration // how long the task may be under way

	Unwanted *taskv1.Cancelled // how it ends when its server gave it up; nil while it is wanted
}

// givenUp returns the fact that a server gave up a change that it deferred. Only one that is no longer wanted ends
// so, whatever the server reports. The view may not know yet that it is not.
func givenUp(t *taskv1.Task, outcome *taskv1.Outcome, of Deferrable) (proto.Message, error) {
	switch {
	case of.Unwanted != nil:
		return of.Unwanted, nil
	case task.Waits(t):
		return nil, fault.New(fault.NotFound, "server gave up task %s, which is wanted", t.Id)
	}
	return &taskv1.Undone{Outcome: bounded(outcome)}, nil
}

// deferral returns the facts of a report that a change waits or goes on. A task waits once: a server must not keep one
// from ending, nor fill the ledger.
func deferral(t *taskv1.Task, r *reportv1.Report, of Deferrable) (facts []proto.Message) {
	d := r.GetTask().Deferral
	if t.State == taskv1.State_STATE_ASSIGNED {
		facts = append(facts, started(r.BootId))
	}
	switch {
	case d.ResumedAt == nil && t.Deferral == nil:
		wait := d.GetUntil().AsTime().Sub(r.GetAt().AsTime()) // both by the server's clock
		until := of.Now.Add(min(max(wait, 0), of.Busy))
		facts = append(facts, &taskv1.Deferred{
			Deferral: &taskv1.Deferral{
				Code: tidy(d.Code, MaxCode), Reason: tidy(d.Reason, MaxReason), Until: timestamppb.New(until),
			},
			Deadline: timestamppb.New(until.Add(of.UnderWay)),
		})
	case d.ResumedAt != nil && task.Waits(t):
		facts = append(facts, &taskv1.Resumed{
			Overrun: d.Overrun, Deadline: timestamppb.New(of.Now.Add(of.UnderWay)),
		})
	}
	return facts
}
