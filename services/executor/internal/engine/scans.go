package engine

import (
	"context"
	"errors"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/detect"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/steps"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// scans answers requests for the candidates on the server, one at a time and beside the loop. Its methods are called
// by the loop's goroutine.
type scans struct {
	scan    func(context.Context, *serverv1.Scan) (*reportv1.CandidatesReport, error)
	tasks   tasks
	spawn   func(func())
	answers chan<- answer
	busy    bool
}

// answer handles in the loop what a request led to beside it, and goes on with the next request of the document.
type answer func(context.Context, *desiredv1.Document) error

// scanned is how a scan ended.
type scanned struct {
	taskID string
	found  *reportv1.CandidatesReport
	err    error
}

// begin begins the next scan that a document asks for, unless one is under way.
func (s *scans) begin(ctx context.Context, d *desiredv1.Document) error {
	if s.busy {
		return nil
	}
	due, err := s.tasks.open(d, isScan)
	if err != nil || len(due) == 0 {
		return err
	}
	s.busy = true
	q := due[0]
	s.spawn(func() {
		found, err := s.scan(ctx, q.GetScan())
		select {
		case s.answers <- func(ctx context.Context, d *desiredv1.Document) error {
			return s.answer(ctx, d, scanned{q.GetTaskId(), found, err})
		}:
		case <-ctx.Done():
		}
	})
	return nil
}

func isScan(q *desiredv1.Request) bool { return q.GetScan() != nil }

// answer reports what a scan found and begins the next one.
func (s *scans) answer(ctx context.Context, d *desiredv1.Document, r scanned) error {
	s.busy = false
	reports := s.tasks.reports
	err := reports.journal.Update(func(tx *journal.Tx) error {
		if ended, err := tx.Ended(r.taskID); err != nil || ended != nil {
			return err
		}
		if r.err != nil {
			f := steps.Failure(taskv1.Step_STEP_CHECK, r.err)
			return s.tasks.end(tx, r.taskID, taskv1.State_STATE_FAILED,
				&taskv1.Outcome{FailedStep: f.Step, Code: f.Code, Reason: f.Reason})
		}
		listed, err := detect.Listed(r.found.GetCandidates())
		if err != nil {
			return err
		}
		out := reports.report()
		r.found.TaskId = r.taskID
		out.Body = &reportv1.Report_Candidates{Candidates: r.found}
		return errors.Join(tx.Say(out),
			s.tasks.end(tx, r.taskID, taskv1.State_STATE_SUCCEEDED, &taskv1.Outcome{Listed: listed}))
	})
	if err != nil {
		return err
	}
	return s.begin(ctx, d)
}

// newScan returns what scans the server of an engine.
func newScan(cfg Config) func(context.Context, *serverv1.Scan) (*reportv1.CandidatesReport, error) {
	return func(ctx context.Context, asked *serverv1.Scan) (*reportv1.CandidatesReport, error) {
		in, err := cfg.Journal.Inventory()
		if err != nil {
			return nil, err
		}
		ours, services := map[int]bool{}, map[string]bool{}
		for _, i := range in.Instances {
			if supervise.Lives(i.Adopted) {
				ours[i.Adopted.Pid] = true
			}
			if service := i.Adopted.ServiceName(); service != "" {
				services[service] = true
			}
			for _, pid := range cfg.Supervisor.Members(i.Agent) {
				ours[pid] = true
			}
		}
		return detect.Run(ctx, detect.Config{
			Home: string(cfg.Root), Programs: cfg.Root.Detectors(), Units: "garrison-",
			Ours: func(pid int) bool { return ours[pid] || services[detect.ServiceOf(pid)] },
		}, asked)
	}
}
