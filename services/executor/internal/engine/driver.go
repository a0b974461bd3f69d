package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/deadline"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/inventory"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/observe"
	"github.com/garrison-fleet/garrison/services/executor/internal/steps"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// maxTail bounds the reported output of an agent whose change failed.
const maxTail = 4 << 10

// forwardWithin bounds a change whose task has no deadline, or one that has passed: the clock
// here need not agree with the dispatcher's, who ends the task in any case.
const forwardWithin = 10 * time.Minute

// driver does changes: the step of each state, and then what the table says.
type driver struct {
	root     layout.Root
	journal  *journal.Journal
	steps    stepSet
	life     *steps.ServerLife
	health   *observe.Health
	records  inventory.Keeper
	endings  endings
	become   func(r *steps.Run) error // after the end of a change of the executor itself
	progress func(*taskv1.Progress)
	begun    func(task string) error // says that a task that takes long has begun
	point    func(string)
	log      zerolog.Logger

	mu      sync.Mutex
	current map[string]taskv1.Step // what is being done, by agent
}

// newRun returns a change that is about to be done.
func (d *driver) newRun(rec *change.Record, resumed bool) *steps.Run {
	r := &steps.Run{
		Record: rec, Resumed: resumed, Point: d.point, Journal: d.journal,
		Log: d.log.With().Str(logs.Agent, rec.Agent).Str(logs.Task, rec.TaskID).
			Str(logs.Version, rec.To.GetVersion()).Logger(),
	}
	r.Progress = func(done, total uint64) {
		if rec.TaskID != "" {
			d.progress(&taskv1.Progress{TaskId: rec.TaskID, Step: rec.Step, DoneBytes: done, TotalBytes: total})
		}
	}
	return r
}

// do does a change from a state to its end and reports it. An error means that the journal
// cannot be written: the change stays open, and another one of the same agent must not take
// its place. Only the next start can resume it.
func (d *driver) do(ctx context.Context, r *steps.Run, at change.State) error {
	d.endings.begin()
	defer d.endings.leave()
	defer r.Release()
	defer d.sayBegun(r).Stop()
	alive, done := d.life.While(ctx, r.Record)
	defer done()
	within, cancel := bound(alive, r.Record)
	defer func() { cancel() }()
	life := r.Life()
	for !life.End(at) {
		err := d.step(ctx, alive, within, r, at)
		if at == change.Deferring { // its wait moved the limit
			cancel()
			within, cancel = bound(alive, r.Record)
		}
		switch {
		case errors.Is(err, steps.ErrStopped) || ctx.Err() != nil:
			d.leaveOpen(r)
			return nil
		case isJournal(err):
			if at != change.RollingBack && !at.Forward() {
				_ = d.steps.settle.Do(ctx, r) // what is installed runs, whatever the journal cannot keep
			}
			r.Log.Error().Err(err).Msg("change left open")
			return fmt.Errorf("change of %s left open: %w", r.Agent, err)
		case err != nil && at == change.RollingBack:
			r.RollbackError = change.OneLine(err)
			r.Log.Error().Err(err).Msg("change not rolled back")
		case err != nil:
			d.fail(r, err)
		}
		at = r.Next(at, err)
	}
	return d.finish(r)
}

// sayBegun says after a while that the task of a change has begun. The end of a shorter one says so too.
func (d *driver) sayBegun(r *steps.Run) *time.Timer {
	task := r.TaskID
	return time.AfterFunc(change.Long, func() {
		if err := d.begun(task); err != nil {
			r.Log.Warn().Err(err).Msg("start of a task not reported")
		}
	})
}

// leaveOpen notes that the executor was stopped during a change: the next start resumes it, and counts no crash.
func (d *driver) leaveOpen(r *steps.Run) {
	r.Stopped = true
	if err := r.Save(); err != nil {
		r.Log.Warn().Err(err).Msg("stop during a change not noted")
	}
}

func isJournal(err error) bool { return errors.Is(err, steps.ErrJournal) }

// bound returns the context of the steps that go forward. It ends with the server's life, and
// early enough for the rollback and its report to come before the dispatcher ends the task.
func bound(alive context.Context, r *change.Record) (context.Context, context.CancelFunc) {
	to, from := r.To.GetRun(), r.OldImage().GetRun()
	limit := deadline.Own(time.Now(), r.Deadline, deadline.Margin(to, from), forwardWithin+deadline.Extra(to, from))
	return context.WithDeadline(alive, limit)
}

// step does the step of a state. A step that goes forward is not begun when it is too late for
// more than a rollback, or the server is dead. A wait for the end of critical sections has a limit of its own.
func (d *driver) step(ctx, alive, within context.Context, r *steps.Run, at change.State) error {
	if !at.Forward() {
		return d.enter(ctx, r, at)
	}
	late := within.Err() != nil && !change.Touches(r.Step)
	if ctx.Err() == nil && (late || steps.Ended(within)) {
		return steps.Cause(within, within.Err())
	}
	if at == change.Deferring {
		return steps.Cause(alive, d.enter(alive, r, at))
	}
	return steps.Cause(within, d.enter(within, r, at))
}

// enter writes the journal's line of a state's step, and then does the step.
func (d *driver) enter(ctx context.Context, r *steps.Run, at change.State) error {
	r.Step = change.Steps[at]
	if err := r.Save(); err != nil {
		return err
	}
	d.show(r.Agent, r.Step)
	r.Progress(0, 0)
	step, name := r.Step, strings.ToLower(strings.TrimPrefix(r.Step.String(), "STEP_"))
	d.point("begin " + name)
	began := time.Now()
	err := d.steps.of(r.Record)[at].Do(ctx, r)
	r.Took(step, time.Since(began))
	d.point("end " + name)
	return err
}

// show sets what is being done of an agent.
func (d *driver) show(agent string, s taskv1.Step) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s == taskv1.Step_STEP_UNSPECIFIED {
		delete(d.current, agent)
	} else {
		d.current[agent] = s
	}
}

// showing returns what is being done, by agent.
func (d *driver) showing() map[string]taskv1.Step {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.current)
}

// fail keeps in the record why the step failed.
func (d *driver) fail(r *steps.Run, err error) {
	f := steps.Failure(r.Step, err)
	if change.Touches(r.Step) && !r.Removes() {
		f.What = d.steps.health.WhatFailed(r, f.Code)
		f.LogTail = supervise.Tail(d.root.Output(r.Agent), r.LogOffset, maxTail)
	}
	f.Reason, f.LogTail = r.Scrub(f.Reason), r.Scrub(f.LogTail)
	r.Failure = f
	r.Log.Warn().Str(logs.Step, r.Step.String()).Str(logs.Code, f.Code).Str(logs.Reason, f.Reason).
		Msg("change failed")
}

// finish writes and reports the end of a change.
func (d *driver) finish(r *steps.Run) error {
	d.show(r.Agent, taskv1.Step_STEP_UNSPECIFIED)
	d.health.Ended(r.Agent, r.OldUnhealthy)
	if err := d.settleRecord(r); err != nil {
		r.Log.Error().Err(err).Msg("record beside the agent not written")
	}
	if err := d.endings.end(r); err != nil {
		return fmt.Errorf("change of %s left open: %w", r.Agent, err)
	}
	d.point("ended")
	r.Log.Info().Str(logs.State, r.Outcome().State.String()).Dur(logs.Took, time.Since(r.BeganAt)).Msg("change ended")
	return d.become(r)
}

// settleRecord leaves beside the agent what the inventory says, and no change: its end is
// written next.
func (d *driver) settleRecord(r *steps.Run) error {
	now, err := d.journal.Instance(r.Agent)
	if err == nil && now != nil {
		err = d.records.Installed(now)
	}
	return errors.Join(err, d.records.Ends(r.Agent))
}
