package engine

import (
	"context"
	"errors"
	"strconv"
	"strings"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/steps"
)

// requests answers the requests of one kind, one at a time and beside the loop. Its methods are called by the loop's
// goroutine.
type requests struct {
	kind    string
	is      func(*desiredv1.Request) bool
	do      func(context.Context, *desiredv1.Request) reply
	tasks   tasks
	spawn   func(func())
	answers chan<- answer
	busy    bool
}

// reply writes what a request led to, and returns how its task ended.
type reply func(*journal.Tx) (taskv1.State, *taskv1.Outcome, error)

// answer handles in the loop what a request led to beside it, and goes on with the next request of the document.
type answer func(context.Context, *desiredv1.Document) error

// begin begins with the next request of a document, unless one is under way.
func (r *requests) begin(ctx context.Context, d *desiredv1.Document) error {
	if r.busy {
		return nil
	}
	due, err := r.tasks.open(d, r.is)
	if err != nil || len(due) == 0 {
		return err
	}
	times, err := r.count(due[0].GetTaskId())
	if err != nil {
		return err
	}
	if times > change.MaxInterruptions {
		why := steps.Failure(taskv1.Step_STEP_CHECK, fault.Refusef(fault.Invalid, code.CrashedExecutor,
			"the executor or its machine ended %d times while it was at this", times-1))
		return errors.Join(r.tasks.fail([]string{due[0].GetTaskId()}, why), r.begin(ctx, d))
	}
	r.busy = true
	r.spawn(func() {
		write := r.do(ctx, due[0])
		if ctx.Err() != nil {
			return // the next start does it again
		}
		select {
		case r.answers <- func(ctx context.Context, d *desiredv1.Document) error {
			return r.answer(ctx, d, due[0].GetTaskId(), write)
		}:
		case <-ctx.Done():
		}
	})
	return nil
}

// noteBegun begins the name under which the journal keeps which request of a kind began last, and how often.
const noteBegun = "begun/"

// count counts, before it happens, that a request is begun: what it runs may end the executor.
func (r *requests) count(task string) (times int, err error) {
	err = r.tasks.reports.journal.Update(func(tx *journal.Tx) error {
		if id, n, _ := strings.Cut(tx.Note(noteBegun+r.kind), " "); id == task {
			times, _ = strconv.Atoi(n)
		}
		times++
		return tx.SetNote(noteBegun+r.kind, task+" "+strconv.Itoa(times))
	})
	return times, err
}

// answer writes and reports what a request led to, and begins with the next one.
func (r *requests) answer(ctx context.Context, d *desiredv1.Document, id string, write reply) error {
	r.busy = false
	err := r.tasks.reports.journal.Update(func(tx *journal.Tx) error {
		if ended, err := tx.Ended(id); err != nil || ended != nil {
			return err
		}
		state, outcome, err := write(tx)
		if err != nil {
			return err
		}
		return r.tasks.end(tx, id, state, outcome)
	})
	if err != nil {
		return err
	}
	return r.begin(ctx, d)
}

// failed returns the outcome of a request that could not be met.
func failed(f *change.Failure) *taskv1.Outcome {
	return &taskv1.Outcome{FailedStep: f.Step, Code: f.Code, Reason: f.Reason}
}
