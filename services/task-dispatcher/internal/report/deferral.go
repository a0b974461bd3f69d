package report

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/noun/task"
)

// Times is what bounds the wait of a deferred task.
type Times struct {
	Now      time.Time     // by the clock of the bus
	Busy     time.Duration // how long a change on its server waits at most
	UnderWay time.Duration // how long the task may be under way
}

// deferral returns the facts of a report that a change waits or goes on. A task waits once: a server must not keep one
// from ending, nor fill the ledger.
func deferral(t *taskv1.Task, r *reportv1.Report, times Times) (facts []proto.Message) {
	d := r.GetTask().Deferral
	if t.State == taskv1.State_STATE_ASSIGNED {
		facts = append(facts, started(r.BootId))
	}
	switch {
	case d.ResumedAt == nil && t.Deferral == nil:
		wait := d.GetUntil().AsTime().Sub(r.GetAt().AsTime()) // both by the server's clock
		until := times.Now.Add(min(max(wait, 0), times.Busy))
		facts = append(facts, &taskv1.Deferred{
			Deferral: &taskv1.Deferral{
				Code: tidy(d.Code, MaxCode), Reason: tidy(d.Reason, MaxReason), Until: timestamppb.New(until),
			},
			Deadline: timestamppb.New(until.Add(times.UnderWay)),
		})
	case d.ResumedAt != nil && task.Waits(t):
		facts = append(facts, &taskv1.Resumed{
			Overrun: d.Overrun, Deadline: timestamppb.New(times.Now.Add(times.UnderWay)),
		})
	}
	return facts
}
