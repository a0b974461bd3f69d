package dispatcher

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/decide"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/noun/task"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/report"
	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/view"
)

// reports turns the servers' reports of tasks into facts.
type reports struct {
	cfg     Config
	view    *view.View
	decider *decide.Decider
	clock   *busClock
}

func (p *reports) run(ctx context.Context) error {
	return p.cfg.Conn.Consume(ctx, topology.DispatcherTasks, p.handle)
}

// handle handles one report. It is safe to run twice: a fact is guarded by its task's key, and a
// report that repeats what is recorded leads to no fact. When it returns, the view holds the fact:
// the next report of the same server is decided on it.
func (p *reports) handle(ctx context.Context, m bus.Message) error {
	var r reportv1.Report
	if err := bus.Unmarshal(m, &r); err != nil {
		return err
	}
	if err := checkReport(m.Subject, &r); err != nil {
		return err
	}
	p.clock.checkServer(&r, m.Time)
	now := p.cfg.Now()
	if r.GetTask().Deferral != nil { // its times are of the bus
		var err error
		if now, err = p.clock.now(ctx, clockAge); err != nil {
			return err
		}
	}
	var t *taskv1.Task
	var facts []proto.Message
	_, err := p.decider.Do(ctx, func() (drafts []ledger.Draft, err error) {
		var sequence uint64
		t, sequence, _ = p.view.Rows.Task(r.GetTask().TaskId)
		server, _ := p.view.Rows.Server(r.ServerId)
		if facts, err = report.Decide(t, server, &r, p.deferrable(t, now)); err != nil {
			return nil, err
		}
		o := decide.Origin{
			Request: t.GetIntentId(), Cause: ledger.CausedByReport(r.ServerId, r.Sequence),
			Trace: ledger.CheckTrace(m.Get(ledger.HeaderTrace)),
		}
		for _, body := range facts {
			sealOutput(p.cfg.Secrets, t.GetId(), body)
			drafts = append(drafts, ledger.Free(p.decider.Fact(o, ledger.Task, t.GetId(), body)))
		}
		if len(drafts) > 0 { // all or none are recorded, so one guard holds for all
			drafts[0] = ledger.OnKey(drafts[0].Fact, sequence)
		}
		return drafts, nil
	})
	if errors.Is(err, report.ErrIgnored) {
		p.cfg.Log.Debug().
			Err(err).
			Str(logs.Task, r.GetTask().TaskId).
			Str(logs.Server, r.ServerId).
			Msg("report ignored")
		return nil
	}
	if err == nil {
		for _, body := range facts {
			p.log(t, body)
		}
	}
	return err
}

// deferrable returns what is to be known of a task's wait. It must be called while the view stands still.
func (p *reports) deferrable(t *taskv1.Task, now time.Time) report.Deferrable {
	return report.Deferrable{
		Now: now, Busy: p.view.Rows.BusyLimit(t.GetServerId()), UnderWay: p.view.Durations.Within(t, p.cfg.bounds()),
		Unwanted: p.view.Rows.Unwanted(t),
	}
}

// checkReport refuses a report that does not match its subject.
func checkReport(subject string, r *reportv1.Report) error {
	address, kind, err := topology.ParseReportSubject(subject)
	switch {
	case err != nil:
		return err
	case r.ServerId != address.Server:
		return fault.New(fault.Invalid, "report on %s names another server, %q", subject, r.ServerId)
	case kind != topology.ReportTask || r.GetTask() == nil:
		return fault.New(fault.Invalid, "report on %s is not about a task", subject)
	}
	return nil
}

func (p *reports) log(t *taskv1.Task, body proto.Message) {
	what := ledger.Fact{Body: body}.Name()
	if late, ok := body.(*taskv1.ReportedLate); ok {
		what = "expired, reported late as " + string(task.StateOf(late.State))
	}
	line := p.cfg.Log.Info()
	if o, ok := body.(interface{ GetOutcome() *taskv1.Outcome }); ok && o.GetOutcome().GetReason() != "" {
		line = p.cfg.Log.Warn().Str(logs.Code, o.GetOutcome().GetCode()).Str(logs.Reason, o.GetOutcome().GetReason())
	}
	line.Str(logs.Task, t.Id).
		Str(logs.Server, t.ServerId).
		Str(logs.Agent, t.Agent).
		Str(logs.State, what).
		Msg("task reported")
}
