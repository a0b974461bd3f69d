package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/deadline"
	"github.com/garrison-fleet/garrison/pkg/strict"
	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/detect"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/plan"
	"github.com/garrison-fleet/garrison/services/executor/internal/steps"
	"github.com/garrison-fleet/garrison/services/executor/internal/store"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// tasks answers what a document shows and no change does: ended tasks and requests for a
// refresh.
type tasks struct {
	version string // the executor's own
	reports *reporter
}

// answer refuses the requests that this executor does not know, and reports ended tasks again.
func (t tasks) answer(d *desiredv1.Document) error {
	return errors.Join(t.refuseUnknown(d), t.repeatEnds(d))
}

// refuseUnknown ends the requests that have a field or a value of a newer contract.
func (t tasks) refuseUnknown(d *desiredv1.Document) error {
	due, err := t.open(d, func(q *desiredv1.Request) bool { return strict.Check(q) != nil })
	if err != nil || len(due) == 0 {
		return err
	}
	return t.reports.journal.Update(func(tx *journal.Tx) (err error) {
		for _, q := range due {
			err = errors.Join(err, t.end(tx, q.GetTaskId(), taskv1.State_STATE_FAILED, &taskv1.Outcome{
				FailedStep: taskv1.Step_STEP_CHECK, Code: code.ExecutorTooOld,
				Reason: "executor " + t.version + " does not know all that the document asks: " +
					change.OneLine(strict.Check(q)),
			}))
		}
		return err
	})
}

// repeatEnds reports again how tasks ended that the document still shows, unless the report
// still waits.
func (t tasks) repeatEnds(d *desiredv1.Document) error {
	return t.reports.journal.Update(func(tx *journal.Tx) error {
		waiting, err := tx.TasksWaiting()
		if err != nil {
			return err
		}
		for _, id := range plan.TaskIDs(d) {
			ended, err := tx.Ended(id)
			if err != nil {
				return err
			}
			if id == "" || ended == nil || waiting[id] {
				continue
			}
			outcome, err := ended.ReadOutcome()
			if err != nil {
				return err
			}
			if err := tx.Say(t.reports.task(id, ended.State, outcome)); err != nil {
				return err
			}
		}
		return nil
	})
}

// end keeps and reports how a task ended.
func (t tasks) end(tx *journal.Tx, id string, s taskv1.State, o *taskv1.Outcome) error {
	if err := tx.EndTask(id, s, o); err != nil {
		return err
	}
	return tx.Say(t.reports.task(id, s, o))
}

// succeed ends requests, after what they asked for is reported.
func (t tasks) succeed(due []string) error {
	return t.reports.journal.Update(func(tx *journal.Tx) (err error) {
		for _, id := range due {
			err = errors.Join(err, t.end(tx, id, taskv1.State_STATE_SUCCEEDED, &taskv1.Outcome{}))
		}
		return err
	})
}

// fail ends requests that could not be met.
func (t tasks) fail(due []string, why *change.Failure) error {
	return t.reports.journal.Update(func(tx *journal.Tx) (err error) {
		for _, id := range due {
			err = errors.Join(err, t.end(tx, id, taskv1.State_STATE_FAILED, failed(why)))
		}
		return err
	})
}

// unanswered returns the tasks of a document's requests for a refresh that have not ended here.
func (t tasks) unanswered(d *desiredv1.Document) (due []string, err error) {
	all, err := t.open(d, func(q *desiredv1.Request) bool { return !isScan(q) && !isAhead(q) })
	for _, q := range all {
		due = append(due, q.GetTaskId())
	}
	return due, err
}

// open returns the requests of one kind in a document that have not ended here.
func (t tasks) open(d *desiredv1.Document, is func(*desiredv1.Request) bool) (due []*desiredv1.Request, err error) {
	err = t.reports.journal.Read(func(tx *journal.Tx) error {
		for _, q := range d.GetRequests() {
			if !is(q) || q.GetTaskId() == "" {
				continue
			}
			ended, err := tx.Ended(q.GetTaskId())
			if err != nil {
				return err
			}
			if ended == nil {
				due = append(due, q)
			}
		}
		return nil
	})
	return due, err
}

// split returns which of the waiting tasks asked before a look began, and which since.
func split(waiting, asked []string) (due, since []string) {
	for _, id := range waiting {
		if slices.Contains(asked, id) {
			due = append(due, id)
		} else {
			since = append(since, id)
		}
	}
	return due, since
}

func isAhead(q *desiredv1.Request) bool { return q.GetAhead() != nil }

// fetchAhead returns what fetches the image of a request ahead of a change. No agent changes: only the task of a change
// does that, which the document does not have yet.
func fetchAhead(of steps.Ahead) func(context.Context, *desiredv1.Request) reply {
	return func(ctx context.Context, q *desiredv1.Request) reply {
		until := deadline.Own(time.Now(), q.GetDeadline().AsTime(), deadline.Margin(nil, nil), forwardWithin)
		within, cancel := context.WithDeadline(ctx, until)
		defer cancel()
		took, failure := of.Do(within, q.GetTaskId(), q.GetAhead())
		return func(tx *journal.Tx) (taskv1.State, *taskv1.Outcome, error) {
			if failure != nil {
				o := failed(failure)
				o.Steps = took
				return taskv1.State_STATE_FAILED, o, nil
			}
			err := store.KeepAhead(tx, q.GetAhead(), q.GetKeepUntil().AsTime())
			return taskv1.State_STATE_SUCCEEDED, &taskv1.Outcome{Steps: took}, err
		}
	}
}

func isScan(q *desiredv1.Request) bool { return q.GetScan() != nil }

// answerScan returns what scans the server for the candidates of a request.
func answerScan(cfg Config, reports *reporter) func(context.Context, *desiredv1.Request) reply {
	scan := newScan(cfg)
	return func(ctx context.Context, q *desiredv1.Request) reply {
		found, failure := scan(ctx, q.GetScan())
		return func(tx *journal.Tx) (taskv1.State, *taskv1.Outcome, error) {
			if failure != nil {
				return taskv1.State_STATE_FAILED, failed(steps.Failure(taskv1.Step_STEP_CHECK, failure)), nil
			}
			listed, err := detect.Listed(found.GetCandidates())
			if err != nil {
				return taskv1.State_STATE_FAILED, nil, err
			}
			out := reports.report()
			found.TaskId = q.GetTaskId()
			out.Body = &reportv1.Report_Candidates{Candidates: found}
			return taskv1.State_STATE_SUCCEEDED, &taskv1.Outcome{Listed: listed}, tx.Say(out)
		}
	}
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
