package dispatcher

import (
	"context"

	"google.golang.org/protobuf/proto"

	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/task"
)

// hear turns the servers' reports of tasks into facts.
func (d *Dispatcher) hear(ctx context.Context) error {
	if !d.ready(ctx) {
		return nil
	}
	return d.Conn.Consume(ctx, topology.DispatcherTasks, d.heard)
}

// heard handles one report. It is safe to run twice: a fact is guarded by its task's
// key, and a report that says what is known already leads to nothing.
func (d *Dispatcher) heard(ctx context.Context, m bus.Message) error {
	var r reportv1.Report
	if err := bus.Unmarshal(m, &r); err != nil {
		return err
	}
	if err := checkReport(m.Subject, &r); err != nil {
		return err
	}
	d.hearClock(r.ServerId, &r, m.Time)
	caughtUp := false
	for {
		moved := d.fold.Changed()
		look := d.lookAt(&r)
		if !look.decided() && !caughtUp {
			// Another dispatcher may have said more about this task than this view holds yet.
			if err := d.catchUp(ctx); err != nil {
				return err
			}
			caughtUp = true
			continue
		}
		err := d.settleReport(ctx, m, &r, look)
		if !fault.Is(err, fault.Conflict) {
			return err
		}
		select {
		case <-moved: // what the report lost against is there now: decide again
		case <-ctx.Done():
			return fault.New(fault.Unavailable, "settle report on task %s: %w", r.GetTask().GetTaskId(), ctx.Err())
		}
	}
}

// checkReport refuses a report that is not what its subject says.
func checkReport(subject string, r *reportv1.Report) error {
	address, kind, err := topology.ParseReportSubject(subject)
	switch {
	case err != nil:
		return err
	case r.ServerId != address.Server:
		return fault.New(fault.Invalid, "report on %s says that it is from server %q", subject, r.ServerId)
	case kind != topology.ReportTask || r.GetTask() == nil:
		return fault.New(fault.Invalid, "report on %s is not about a task", subject)
	}
	return nil
}

// seen is what the view says of a report's task.
type seen struct {
	task     *taskv1.Task
	sequence uint64
	known    bool
	trusted  bool
	dead     bool
}

// decided says whether a view that lags behind would not say otherwise later.
func (s seen) decided() bool { return s.known && s.task.State != taskv1.State_STATE_QUEUED }

func (d *Dispatcher) lookAt(r *reportv1.Report) seen {
	var s seen
	d.fold.Read(func() {
		s.task, s.sequence, s.known = d.view.Task(r.GetTask().TaskId)
		server, _ := d.view.Server(r.ServerId)
		s.dead = server.GetLife() == serverv1.Life_LIFE_DEAD
		s.trusted = server.GetStanding() == serverv1.Standing_STANDING_ENROLLED
	})
	return s
}

// catchUp waits until the view holds what is in the ledger now.
func (d *Dispatcher) catchUp(ctx context.Context) error {
	end, err := d.Conn.Stream(ctx, topology.Ledger)
	if err != nil {
		return err
	}
	return d.fold.Wait(ctx, end.LastSequence)
}

// settleReport records what a report says, and waits until the view holds it: the next
// report of the same server is decided upon it.
func (d *Dispatcher) settleReport(ctx context.Context, m bus.Message, r *reportv1.Report, look seen) error {
	said := r.GetTask()
	if !look.known {
		d.Log.Debug().Str(logs.Task, said.TaskId).Str(logs.Server, r.ServerId).Msg("report on a task that is not known any more")
		return nil
	}
	if look.task.ServerId != r.ServerId {
		return fault.New(fault.Invalid, "server %s reports on task %s, which is server %s's", r.ServerId, said.TaskId, look.task.ServerId)
	}
	if look.dead {
		d.Log.Debug().Str(logs.Task, said.TaskId).Str(logs.Server, r.ServerId).Msg("report of a server that is dead")
		return nil // its duties are over, whatever it says
	}
	if !look.trusted {
		return fault.New(fault.Invalid, "server %s is quarantined; its report on task %s is not believed", r.ServerId, said.TaskId)
	}
	what := task.Said{State: said.State, Outcome: said.Outcome, BootID: r.BootId}
	body, err := task.Reported(look.task.State, what)
	if err == nil && body == nil {
		body = task.Late(look.task, what)
	}
	if err != nil || body == nil {
		return err
	}
	f := d.fact(said.TaskId, body, origin{
		request: look.task.IntentId, cause: ledger.CausedByReport(r.ServerId, r.Sequence), trace: m.Get(ledger.HeaderTrace),
	})
	sequence, err := d.writer.Append(ctx, ledger.OnKey(f, look.sequence))
	if err != nil {
		return err
	}
	d.logReport(look.task, body)
	return d.fold.Wait(ctx, sequence)
}

func (d *Dispatcher) logReport(t *taskv1.Task, body proto.Message) {
	what := string(task.FactOf(body))
	if late, ok := body.(*taskv1.ReportedLate); ok {
		what = "expired, reported late as " + string(task.StateOf(late.State))
	}
	line := d.Log.Info()
	if o, ok := body.(interface{ GetOutcome() *taskv1.Outcome }); ok && o.GetOutcome().GetReason() != "" {
		line = d.Log.Warn().Str(logs.Code, o.GetOutcome().GetCode()).Str(logs.Reason, o.GetOutcome().GetReason())
	}
	line.Str(logs.Task, t.Id).Str(logs.Server, t.ServerId).Str(logs.Agent, t.Agent).Str(logs.State, what).Msg("task reported")
}
