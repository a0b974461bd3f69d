package engine

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

// sysinfoEvery is how often it is looked whether the machine was changed.
const sysinfoEvery = 10 * time.Minute

// report gives a report without a body; the journal gives it its sequence.
func (e *Engine) report() *reportv1.Report {
	return &reportv1.Report{ServerId: e.cfg.ServerID, BootId: e.cfg.BootID, At: timestamppb.Now()}
}

func (e *Engine) taskReport(id string, s taskv1.State, o *taskv1.Outcome) *reportv1.Report {
	r := e.report()
	r.Body = &reportv1.Report_Task{Task: &reportv1.TaskReport{TaskId: id, State: s, Outcome: o}}
	return r
}

func (e *Engine) agentsReport(found []*reportv1.Found, generation uint64, taskID string) *reportv1.Report {
	r := e.report()
	r.Body = &reportv1.Report_Agents{Agents: &reportv1.AgentsReport{Agents: found, DocumentGeneration: generation, TaskId: taskID}}
	return r
}

func (e *Engine) sysinfoReport(s *serverv1.Sysinfo, taskID string) *reportv1.Report {
	r := e.report()
	r.Body = &reportv1.Report_Sysinfo{Sysinfo: &reportv1.SysinfoReport{Sysinfo: s, TaskId: taskID}}
	return r
}

// sayStart reports what is there, whatever was said before.
func (e *Engine) sayStart(ctx context.Context) error {
	return errors.Join(e.saySysinfo(ctx, "", true), e.sayAgents("", true))
}

// sayAgents reports what is there if it differs from what was last said, or always.
func (e *Engine) sayAgents(taskID string, always bool) error {
	found, err := e.found()
	if err != nil {
		return err
	}
	now := &reportv1.AgentsReport{Agents: found}
	if !always && proto.Equal(now, e.said) {
		return nil
	}
	e.said = now
	return e.cfg.Journal.Update(func(tx *journal.Tx) error {
		return tx.Say(e.agentsReport(found, tx.Applied(), taskID))
	})
}

// saySysinfo reports what the machine is if that differs from what was last said, or always.
func (e *Engine) saySysinfo(ctx context.Context, taskID string, always bool) error {
	now := e.cfg.Sysinfo(ctx)
	return e.cfg.Journal.Update(func(tx *journal.Tx) error {
		if err := e.steadyBoot(tx, now); err != nil {
			return err
		}
		if !always && proto.Equal(now, e.sysinfo) {
			return nil
		}
		e.sysinfo = now
		return tx.Say(e.sysinfoReport(now, taskID))
	})
}

// steadyBoot keeps the first start time that was seen in a boot: the kernel computes it
// from a clock that is corrected, so it moves by a second now and then.
func (e *Engine) steadyBoot(tx *journal.Tx, s *serverv1.Sysinfo) error {
	const name = "booted-at"
	if s.GetBootedAt() == nil {
		return nil
	}
	prefix := e.cfg.BootID + " "
	if was, ok := strings.CutPrefix(tx.Note(name), prefix); ok {
		if at, err := time.Parse(time.RFC3339, was); err == nil {
			s.BootedAt = timestamppb.New(at)
			return nil
		}
	}
	return tx.SetNote(name, prefix+s.GetBootedAt().AsTime().Format(time.RFC3339))
}

// answerRequests reports at once what the document asks for, once for each task.
func (e *Engine) answerRequests(ctx context.Context) error {
	for _, q := range e.document.GetRequests() {
		var ended *journal.Ended
		err := e.cfg.Journal.Read(func(tx *journal.Tx) (err error) {
			ended, err = tx.Ended(q.GetTaskId())
			return err
		})
		if err != nil {
			return err
		}
		if ended != nil || q.GetTaskId() == "" {
			continue
		}
		if err := errors.Join(e.saySysinfo(ctx, q.GetTaskId(), true), e.sayAgents(q.GetTaskId(), true)); err != nil {
			return err
		}
		err = e.cfg.Journal.Update(func(tx *journal.Tx) error {
			return errors.Join(
				tx.End(q.GetTaskId(), journal.Ended{State: taskv1.State_STATE_SUCCEEDED, At: time.Now()}),
				tx.Say(e.taskReport(q.GetTaskId(), taskv1.State_STATE_SUCCEEDED, &taskv1.Outcome{})))
		})
		if err != nil {
			return err
		}
	}
	return nil
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
