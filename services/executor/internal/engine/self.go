package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/plan"
	"github.com/garrison-fleet/garrison/services/executor/internal/probe"
)

// An image of kind self holds the executor's own program. Its change is like any other up
// to the switch. There the engine ends with a HandOver, so that the new program can work
// in its place as a child of this process, and what that showed is written down by Judge.
// The engine that starts next, in whichever process, goes forward or undoes by that.

// The codes of changes of the executor itself.
const (
	CodeNeedsBus        = "NEEDS_BUS"
	CodeRehearsalFailed = "REHEARSAL_FAILED"
	codeInterrupted     = "INTERRUPTED"
	codeOtherSelf       = "OTHER_SELF"
)

// Self is what the engine asks of the process that it is in.
type Self interface {
	// Rehearse lets a program show, beside this one, that it reads the journal and reaches the bus.
	Rehearse(ctx context.Context, program string) error
	// Runs says whether this process runs a program; "" is the one that was started, from no image.
	Runs(program string) bool
	// Why says why another program than the one of the image runs, or is "".
	Why() string
	// Forget forgets how often the program of the image was started.
	Forget() error
	// StartedAt is when this process started.
	StartedAt() time.Time
}

// HandOver is what Run returns when a new executor is to be tried in this one's place.
type HandOver struct {
	Agent   string
	Version string
	Program string
	Timeout time.Duration // how long it may take to show that it works
	Soak    time.Duration // how long it must go on working after that
}

func (h *HandOver) Error() string { return "executor " + h.Version + " is to be tried" }

// Replace is what Run returns when this process is to become another program; "" is the
// one that was started, from no image.
type Replace struct{ Program string }

func (r *Replace) Error() string { return fmt.Sprintf("this process is to become %q", r.Program) }

// Verdict is what a trial showed.
type Verdict struct {
	Proven  bool
	Again   bool  // it was interrupted from outside: as if it had never begun
	Err     error // why it is not proven
	LogTail string
	Took    time.Duration
}

func isSelf(m journal.Manifest) bool { return m.GetKind() == agentv1.Kind_KIND_SELF }

// mayBegin says whether an action may begin beside what is under way. A change of the
// executor is alone: whoever else works would be interrupted by the hand-over.
func (e *Engine) mayBegin(a plan.Action) bool {
	if a.Entry.GetImage().GetKind() != agentv1.Kind_KIND_SELF {
		return !e.busy[e.alone]
	}
	if len(e.busy) > 0 {
		return false
	}
	e.alone = a.Agent()
	return true
}

// givesPlace says whether this process is to give its place to another program.
func (e *Engine) givesPlace() bool {
	select {
	case err := <-e.gives:
		if _, ok := errors.AsType[*Replace](err); !ok || !e.dead() { // a dead server needs no other program
			e.leaving = err
		}
	default:
	}
	return e.leaving != nil
}

// give is called by a change, before it ends.
func (e *Engine) give(err error) {
	select {
	case e.gives <- err:
	default: // changes of the executor are alone
	}
}

// SelfBefore gives the program of the version of the executor that was there before the one
// of the inventory, when it is kept and whole; otherwise "".
func SelfBefore(root layout.Root, tx *journal.Tx) (string, error) {
	instances, err := tx.Instances()
	if err != nil {
		return "", err
	}
	kept, err := tx.Kept()
	if err != nil {
		return "", err
	}
	for _, i := range instances {
		of := kept[i.Agent]
		if !isSelf(i.Image) || len(of) == 0 || of[0].Going || !isSelf(of[0].Image) {
			continue
		}
		if _, err := imagedir.New(root).Whole(of[0].Image.Digest()); err == nil {
			return programIn(root, of[0].Image.Manifest, of[0].Image.GetRun().GetCommand()), nil
		}
	}
	return "", nil
}

// checkSelf refuses a program of the executor where it cannot be one.
func (c *change) checkSelf() error {
	self := isSelf(c.rec.To)
	if from := c.rec.From; from != nil && isSelf(from.Image) != self {
		return refuse(CodeInvalidImage, "the image is of %s; what is installed is of %s", c.rec.To.GetKind(), from.Image.GetKind())
	}
	if !self {
		return nil
	}
	if c.cfg.Self == nil {
		return refuse(CodeUnsupportedKind, "this executor is part of another program, and cannot replace itself")
	}
	return c.cfg.Journal.Read(func(tx *journal.Tx) error {
		instances, err := tx.Instances()
		for _, i := range instances {
			if isSelf(i.Image) && i.Agent != c.rec.Agent {
				return refuse(codeOtherSelf, "agent %s brings the executor already; there can be one", i.Agent)
			}
		}
		return err
	})
}

// rehearseSelf lets a new executor look at everything before anything is touched.
func (c *change) rehearseSelf(ctx context.Context) error {
	if !isSelf(c.rec.To) {
		return nil
	}
	return c.cfg.Self.Rehearse(ctx, c.programOf(c.newSide()))
}

// programOf gives the path of a side's program, or "" when its variables cannot be filled in.
func (e *Engine) programOf(s side) string {
	run, err := e.fill(s)
	if err != nil {
		return ""
	}
	return e.program(s.image, run.Command)
}

// handOver ends the engine for the trial. The change stays open.
func (c *change) handOver() error {
	h := &HandOver{Agent: c.rec.Agent, Version: c.rec.To.GetVersion(), Program: c.programOf(c.newSide()), Timeout: probe.DefaultTimeout, Soak: probe.DefaultSoak}
	if ms := c.rec.To.GetRun().GetReady().GetTimeoutMs(); ms != 0 {
		h.Timeout = time.Duration(ms) * time.Millisecond
	}
	if ms := c.rec.To.GetRun().GetReady().GetSoakMs(); ms != 0 {
		h.Soak = time.Duration(ms) * time.Millisecond
	}
	if c.rec.From == nil && !c.rec.Existed {
		c.rec.Made = true // so a trial that was stopped leaves nothing
		if err := c.save(); err != nil {
			return err
		}
	}
	c.give(h)
	return errStopped
}

// Judge writes down what a trial showed.
func Judge(j *journal.Journal, h *HandOver, v Verdict) error {
	return j.Update(func(tx *journal.Tx) error {
		changes, err := tx.Changes()
		if err != nil {
			return err
		}
		for _, rec := range changes {
			if rec.Agent != h.Agent || !isSelf(rec.To) {
				continue
			}
			c := &change{rec: rec}
			c.took(taskv1.Step_STEP_PROVE, v.Took)
			switch {
			case v.Again:
				rec.Step = taskv1.Step_STEP_REHEARSE // nothing was touched, so the document may bring it back
			case v.Proven:
				rec.Proven = true
			default:
				rec.Failure = failure(taskv1.Step_STEP_PROVE, v.Err)
				rec.Failure.LogTail = v.LogTail
			}
			return tx.PutChange(rec)
		}
		return fmt.Errorf("no change of %s is open", h.Agent)
	})
}

// resumeSelf goes on with a change of the executor, after a trial or a crash.
//
// A trial that was not judged is not repeated: it may be why everything ended. One that
// was proven goes forward, whoever was killed meanwhile. And one that is committed while
// another program runs was not able to start: it is undone, as its old image is still there.
func (e *Engine) resumeSelf(ctx context.Context, rec *journal.Change) error {
	c := e.newRun(rec, true)
	c.log.Info().Stringer("step", rec.Step).Bool("proven", rec.Proven).Msg("change of the executor resumed")
	program := c.programOf(c.newSide())
	switch {
	case rec.Failure != nil:
	case !proven(rec):
		c.fail(taskv1.Step_STEP_PROVE, refuse(codeInterrupted, "the executor ended during the trial of the new one"))
	case !rec.Committed:
		if err := c.forward(ctx, []hook{{taskv1.Step_STEP_COMMIT, (*change).commitSelf}}); errors.Is(err, errStopped) {
			return nil // the next start resumes it
		} else if err != nil {
			return err
		}
		if rec.Failure == nil && !c.runs(program) {
			c.give(&Replace{program}) // which settles the change
			return nil
		}
	case !c.runs(program):
		rec.Committed = false
		c.fail(taskv1.Step_STEP_COMMIT, refuse("NOT_STARTED", "%s", c.why()))
	}
	return c.finishFrom(ctx, nil)
}

func (e *Engine) runs(program string) bool { return e.cfg.Self != nil && e.cfg.Self.Runs(program) }

func (e *Engine) why() string {
	if e.cfg.Self == nil {
		return "this executor is part of another program"
	}
	if why := e.cfg.Self.Why(); why != "" {
		return why
	}
	return "another program runs"
}

// commitSelf makes the new program the one that is started from now on.
func (c *change) commitSelf(context.Context) error {
	if err := c.linkSelf(c.rec.To, c.programOf(c.newSide())); err != nil {
		return err
	}
	return c.commit(context.Background())
}

// linkSelf leads both links to an image: the one that every agent has, and the one that a start looks at.
func (c *change) linkSelf(m journal.Manifest, program string) error {
	if err := c.link(m); err != nil {
		return err
	}
	c.cfg.FailPoint("linked")
	target := c.cfg.Root.ProgramLink(program)
	if was, err := os.Readlink(c.cfg.Root.Program()); err == nil && was == target && c.rec.Failure != nil {
		return nil // an undo that finds it where it was: its starts count on
	}
	if err := layout.Link(target, c.cfg.Root.Program()); err != nil {
		return err
	}
	c.cfg.FailPoint("program linked")
	return c.cfg.Self.Forget()
}

// unlinkSelf lets the program that was started, from no image, be the executor from the next start on.
func (c *change) unlinkSelf() error {
	if c.rec.From == nil && !isSelf(c.rec.To) || c.rec.From != nil && !isSelf(c.rec.From.Image) {
		return nil
	}
	err := os.Remove(c.cfg.Root.Program())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the link to the program: %w", err)
	}
	if err := layout.SyncDir(c.cfg.Root.Home()); err != nil {
		return err
	}
	c.cfg.FailPoint("program unlinked")
	if c.cfg.Self == nil {
		return nil
	}
	return c.cfg.Self.Forget()
}

// undoSelf makes the old program the one that is started; it runs already, or follows when the change has ended.
func (c *change) undoSelf() error {
	from := c.rec.From
	if from == nil {
		if err := errors.Join(c.unlinkSelf(), c.undoFirst()); err != nil {
			return err
		}
	} else if err := c.linkSelf(from.Image, c.programOf(sideOf(from))); err != nil {
		return err
	}
	c.cfg.FailPoint("linked back")
	err := c.cfg.Journal.Update(func(tx *journal.Tx) error {
		if from == nil {
			return tx.DropInstance(c.rec.Agent)
		}
		return errors.Join(tx.PutInstance(from), tx.Replace(c.rec.Agent, journal.Manifest{}, from.Image, time.Now())) // a commit had it replaced
	})
	if err != nil {
		return fmt.Errorf("%w: %w", errJournal, err)
	}
	return nil
}

// replaceSelf asks for another program when a change of the executor ended and this
// process is not the one that the inventory names.
func (c *change) replaceSelf() error {
	if c.cfg.Self == nil || !isSelf(c.rec.To) && (c.rec.From == nil || !isSelf(c.rec.From.Image)) {
		return nil
	}
	program := ""
	err := c.cfg.Journal.Read(func(tx *journal.Tx) error {
		now, err := tx.Instance(c.rec.Agent)
		if now != nil {
			program = c.programOf(sideOf(now))
		}
		return err
	})
	if err == nil && !c.runs(program) && c.cfg.Self.Why() == "" { // one that cannot be started is not tried again
		c.give(&Replace{program})
	}
	return err
}

// lookSelf finds out whether this process is the one that the inventory names.
func (e *Engine) lookSelf(i *journal.Instance, f *reportv1.Found) bool {
	if e.cfg.Trial {
		f.Pid = uint32(os.Getppid()) // the old one waits there, and is as well as it was
		return true
	}
	if e.cfg.Self == nil || !e.runs(e.programOf(sideOf(i))) {
		f.Reason = "it does not run: " + e.why()
		return false
	}
	f.Pid, f.StartedAt = uint32(os.Getpid()), timestamppb.New(e.cfg.Self.StartedAt())
	return true
}
