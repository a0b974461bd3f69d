package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/lineage"
)

// report gives a report without a body; the journal gives it its sequence.
func (e *Engine) report() *reportv1.Report {
	return &reportv1.Report{ServerId: e.cfg.ServerID, BootId: e.cfg.BootID, At: timestamppb.Now()}
}

func (e *Engine) taskReport(id string, s taskv1.State, o *taskv1.Outcome) *reportv1.Report {
	r := e.report()
	r.Body = &reportv1.Report_Task{Task: &reportv1.TaskReport{TaskId: id, State: s, Outcome: o}}
	return r
}

func (e *Engine) agentsReport(found *reportv1.AgentsReport, at lineage.Place, taskID string) *reportv1.Report {
	r := e.report()
	r.Body = &reportv1.Report_Agents{Agents: &reportv1.AgentsReport{
		Agents: found.GetAgents(), More: found.GetMore(), TaskId: taskID,
		DocumentEpoch: max(at.Epoch, 1), DocumentGeneration: at.Generation,
	}}
	return r
}

// sayAgents reports what is there if it differs from what was last said, or always.
func (e *Engine) sayAgents(taskID string, always bool) error {
	e.saying.Lock()
	defer e.saying.Unlock()
	found, err := e.found()
	if err != nil {
		return err
	}
	e.mu.Lock()
	same := proto.Equal(found, e.said)
	e.said = found
	e.mu.Unlock()
	if same && !always {
		return nil
	}
	return e.cfg.Journal.Update(func(tx *journal.Tx) error {
		return tx.Say(e.agentsReport(found, tx.Place(), taskID))
	})
}

// lookForRequests has the machine looked at for who asks in the document and was not
// answered yet: one look for all of them. Nothing waits for it.
func (e *Engine) lookForRequests(ctx context.Context) error {
	due, err := e.unanswered()
	if err == nil && len(due) > 0 {
		e.lookAtMachine(ctx, due...)
	}
	return err
}

// answer reports what the machine is, and answers who asked before it was begun to look, in
// the name of the last; who asked since then is answered by another look.
func (e *Engine) answer(ctx context.Context, m machine) error {
	waiting, err := e.unanswered()
	if err != nil {
		return err
	}
	var due, since []string
	for _, id := range waiting {
		if slices.Contains(m.asked, id) {
			due = append(due, id)
		} else {
			since = append(since, id)
		}
	}
	if len(since) > 0 {
		e.lookAtMachine(ctx, since...)
	}
	if len(due) == 0 {
		return e.saySysinfo(m, "")
	}
	last := due[len(due)-1]
	if err := errors.Join(e.saySysinfo(m, last), e.sayAgents(last, true)); err != nil {
		return err
	}
	return e.endRequests(due)
}

// endRequests says that requests were answered, after what they asked for.
func (e *Engine) endRequests(due []string) error {
	return e.cfg.Journal.Update(func(tx *journal.Tx) (err error) {
		for _, id := range due {
			err = errors.Join(err,
				tx.End(id, journal.Ended{State: taskv1.State_STATE_SUCCEEDED, At: time.Now()}),
				tx.Say(e.taskReport(id, taskv1.State_STATE_SUCCEEDED, &taskv1.Outcome{})))
		}
		return err
	})
}

// unanswered gives the tasks of requests that have not ended here.
func (e *Engine) unanswered() (due []string, err error) {
	err = e.cfg.Journal.Read(func(tx *journal.Tx) error {
		for _, q := range e.document.GetRequests() {
			ended, err := tx.Ended(q.GetTaskId())
			if err != nil {
				return err
			}
			if ended == nil && q.GetTaskId() != "" {
				due = append(due, q.GetTaskId())
			}
		}
		return nil
	})
	return due, err
}

// repeatEnds reports again how tasks ended that the document still shows, unless the report still waits.
func (e *Engine) repeatEnds() error {
	return e.cfg.Journal.Update(func(tx *journal.Tx) error {
		waiting, err := tx.TasksWaiting()
		if err != nil {
			return err
		}
		for _, id := range taskIDs(e.document) {
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
			if err := tx.Say(e.taskReport(id, ended.State, outcome)); err != nil {
				return err
			}
		}
		return nil
	})
}
