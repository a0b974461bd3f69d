package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/deadline"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/probe"
	"github.com/garrison-fleet/garrison/services/executor/internal/space"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// hook is one step of a change. It may be done again after a crash, from its start.
type hook struct {
	step taskv1.Step
	do   func(*change, context.Context) error
}

// The whole of a change, in order. When one of bring's steps goes wrong, undo follows if
// anything was switched; then sweep and the report, in every case.
var (
	bring = []hook{
		{taskv1.Step_STEP_CHECK, (*change).check},         // everything that can be known before
		{taskv1.Step_STEP_RESERVE, (*change).reserve},     // the space
		{taskv1.Step_STEP_FETCH, (*change).fetch},         // the chunks
		{taskv1.Step_STEP_VERIFY, (*change).verify},       // the whole
		{taskv1.Step_STEP_STAGE, (*change).stage},         // unpacked and sealed
		{taskv1.Step_STEP_REHEARSE, (*change).renew},      // in the place of a damaged copy
		{taskv1.Step_STEP_REHEARSE, (*change).rehearse},   // the new version checks itself
		{taskv1.Step_STEP_REHEARSE, (*change).lookBefore}, // how the old one is
		{taskv1.Step_STEP_SWITCH, (*change).swap},         // from here on something differs
		{taskv1.Step_STEP_PROVE, (*change).prove},         // it works and stays up
		{taskv1.Step_STEP_COMMIT, (*change).commit},       // the inventory says so
	}
	take = []hook{ // a removal
		{taskv1.Step_STEP_CHECK, (*change).checkRemoval},
		{taskv1.Step_STEP_SWITCH, (*change).stopAll},
		{taskv1.Step_STEP_COMMIT, (*change).setAside}, // from here on it is not installed
		empty,
	}
	empty = hook{taskv1.Step_STEP_COMMIT, (*change).deleteAside}
	undo  = hook{taskv1.Step_STEP_UNDO, (*change).undo}
	sweep = hook{taskv1.Step_STEP_SWEEP, (*change).sweep}
)

// errStopped says that the executor ends; the change stays open in the journal.
var errStopped = errors.New("the executor stops")

// forwardWithin bounds a change whose task says no deadline, or one that passed already:
// the clock here need not agree with the dispatcher's, who ends the task in any case.
const forwardWithin = 10 * time.Minute

// change is a change that is being done.
type change struct {
	*Engine
	rec      *journal.Change
	log      zerolog.Logger
	resumed  bool               // a crash interrupted it
	notify   *probe.Notify      // open while the new one is not ready
	space    *space.Reservation // room that is held for what is still to be written
	unit     supervise.Unit     // the new one's process; nil when nothing runs
	told     int                // the process that got a signal about its configuration; 0 when none did here
	freeBlob func()             // lets others bring the same blob; nil before this one may
	prepared bool               // a whole copy of the image is on the disk
}

func (e *Engine) newRun(rec *journal.Change, resumed bool) *change {
	log := e.cfg.Log.With().Str(logs.Agent, rec.Agent).Str(logs.Task, rec.TaskID).Str(logs.Version, rec.To.GetVersion()).Logger()
	return &change{Engine: e, rec: rec, log: log, resumed: resumed}
}

// run does a change from its start. An error is as in finishFrom.
func (e *Engine) run(ctx context.Context, rec *journal.Change) error {
	c := e.newRun(rec, false)
	c.log.Info().Str("verb", rec.Verb.String()).Msg("change begun")
	hooks := bring
	if rec.Verb == taskv1.Verb_VERB_REMOVE {
		hooks = take
	}
	return c.finishFrom(ctx, hooks)
}

// finishFrom does the hooks and whatever follows, to the report. An error says that the
// journal cannot be written: the change stays open, and another one of the same agent
// must not take its place. Only the next start can resume it.
func (c *change) finishFrom(ctx context.Context, hooks []hook) error {
	c.endings.begun()
	defer c.endings.gone()
	defer c.closeNotify()
	defer c.giveBackSpace()
	err := c.forward(ctx, hooks)
	if err == nil && c.rec.Failure != nil && c.switched() {
		err = c.backward(ctx)
	}
	if err == nil {
		err = c.settle(ctx)
	}
	if err == nil || errors.Is(err, errStopped) {
		return nil
	}
	c.log.Error().Err(err).Msg("change left open")
	return fmt.Errorf("change of %s left open: %w", c.rec.Agent, err)
}

// forward does hooks until one fails, which is kept in the record and is no error.
func (c *change) forward(ctx context.Context, hooks []hook) error {
	if len(hooks) == 0 {
		return nil
	}
	limit := c.ownLimit()
	alive, done := c.whileWanted(ctx)
	defer done()
	within, cancel := context.WithDeadline(alive, limit)
	defer cancel()
	for _, h := range hooks {
		late := within.Err() != nil && !journal.Touches(c.rec.Step)
		if err := unlessDead(within, within.Err()); ctx.Err() == nil && (late || died(within)) {
			c.fail(c.rec.Step, err) // too late to begin what could only be undone, or for nobody
			return nil
		}
		err := c.step(within, h)
		if ctx.Err() != nil {
			return errStopped
		}
		if errors.Is(err, errJournal) || errors.Is(err, errStopped) {
			return err
		}
		if err != nil {
			c.fail(h.step, unlessDead(within, err))
			return nil
		}
	}
	return nil
}

// ownLimit returns when the change stops going forward: early enough for the undo and its
// report to come before the dispatcher ends the task.
func (c *change) ownLimit() time.Time {
	to := c.rec.To.GetRun()
	var from *imagev1.Run
	if c.rec.From != nil {
		from = c.rec.From.Image.GetRun()
	}
	within := forwardWithin + deadline.Extra(to, from)
	return deadline.Own(time.Now(), c.rec.Deadline, deadline.Margin(to, from), within)
}

// backward undoes. What it cannot bring back is kept in the record and is no error.
func (c *change) backward(ctx context.Context) error {
	err := c.step(ctx, undo)
	if ctx.Err() != nil {
		return errStopped
	}
	if errors.Is(err, errJournal) {
		return err
	}
	if err != nil {
		c.rec.NotAsIs = oneLine(err)
		c.log.Error().Err(err).Msg("change not undone")
	}
	return nil
}

var errJournal = errors.New("the journal cannot be written")

// step writes the journal's line, and then does the hook.
func (c *change) step(ctx context.Context, h hook) error {
	if err := c.enter(h.step); err != nil {
		return err
	}
	c.at(h.step)
	name := strings.ToLower(strings.TrimPrefix(h.step.String(), "STEP_"))
	c.cfg.FailPoint("begin " + name)
	began := time.Now()
	err := h.do(c, ctx)
	c.took(h.step, time.Since(began))
	c.cfg.FailPoint("end " + name)
	return err
}

// save writes the record as it is.
func (c *change) save() error {
	err := c.cfg.Journal.Update(func(tx *journal.Tx) error {
		if c.rec.Step == taskv1.Step_STEP_SWITCH { // a journal that does not know of it is an older one
			return errors.Join(tx.Advance(), tx.PutChange(c.rec))
		}
		return tx.PutChange(c.rec)
	})
	if err != nil {
		return fmt.Errorf("%w: %w", errJournal, err)
	}
	return nil
}

// at tells what is being done.
func (c *change) at(s taskv1.Step) {
	c.mu.Lock()
	c.steps[c.rec.Agent] = s
	c.mu.Unlock()
	c.progress(0, 0)
}

func (c *change) progress(done, total uint64) {
	if c.rec.TaskID != "" {
		c.cfg.Progress(&taskv1.Progress{TaskId: c.rec.TaskID, Step: c.rec.Step, DoneBytes: done, TotalBytes: total})
	}
}

// took adds up how long a step took; after a crash a step is done again.
func (c *change) took(s taskv1.Step, d time.Duration) {
	for i := range c.rec.Steps {
		if c.rec.Steps[i].Step == s {
			c.rec.Steps[i].Took += d
			return
		}
	}
	c.rec.Steps = append(c.rec.Steps, journal.StepTime{Step: s, Took: d})
}

// switched says whether anything but the cache and the images may differ from before.
func (c *change) switched() bool {
	return c.rec.Verb != taskv1.Verb_VERB_REMOVE && !c.rec.Committed && (journal.Touches(c.rec.Step) || c.rec.Renewed)
}

// from returns what follows an interruption of a step: the step again, and the rest.
func from(step taskv1.Step) []hook {
	return bring[slices.IndexFunc(bring, func(h hook) bool { return h.step == step }):]
}

// maxTail is how much of an agent's output is reported when it went wrong.
const maxTail = 4 << 10

func (c *change) fail(step taskv1.Step, err error) {
	f := failure(step, err)
	if journal.Touches(step) && c.rec.Verb != taskv1.Verb_VERB_REMOVE {
		f.What = c.whatFailed(f.Code)
		f.LogTail = supervise.Tail(c.cfg.Root.Output(c.rec.Agent), c.rec.LogOffset, maxTail)
	}
	c.rec.Failure = f
	c.log.Warn().Str(logs.Step, step.String()).Str(logs.Code, f.Code).Str(logs.Reason, f.Reason).Msg("change went wrong")
}

// failure says where and why a change went wrong, with a stable code.
func failure(step taskv1.Step, err error) *journal.Failure {
	f := &journal.Failure{Step: step, Code: "INTERNAL", Reason: oneLine(err)}
	switch r := fault.RefusalOf(err); {
	case r != nil:
		f.Code, f.Reason = r.GetCode(), r.GetMessage()
	case errors.Is(err, syscall.ENOSPC):
		f.Code = CodeNoSpace
	case errors.Is(err, context.DeadlineExceeded):
		f.Code = codeTimedOut
	}
	return f
}

func oneLine(err error) string {
	return strings.ToValidUTF8(strings.ReplaceAll(err.Error(), "\n", "; "), "?")
}
