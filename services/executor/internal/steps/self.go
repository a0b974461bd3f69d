package steps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/agent"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// An image of kind self holds the executor's own program. Its change is like any other up to
// the switch. There the engine ends with a HandOver: the new program works in its place as a
// child of this process, and EndTrial writes down the result. The engine that starts next, in
// whichever process, goes forward or rolls back by that.

// Self is what the steps ask of the process that they are in.
type Self interface {
	// Rehearse lets a program show, beside this one, that it reads the journal and reaches the bus.
	Rehearse(ctx context.Context, program string) error
	// Runs reports whether this process runs a program; "" is the program that was started, from no image.
	Runs(program string) bool
	// Why returns why another program than the one of the image runs, or "".
	Why() string
	// Forget forgets how often the program of the image was started.
	Forget() error
	// StartedAt returns when this process started.
	StartedAt() time.Time
}

// HandOver is what the engine returns when a new executor is to be tried in this one's place.
type HandOver struct {
	Agent   string
	Version string
	Program string
	Timeout time.Duration // how long it may take to show that it works
	Soak    time.Duration // how long it must go on working after that
}

// Error implements error.
func (h *HandOver) Error() string { return "executor " + h.Version + " is to be tried" }

// Become is what the engine returns when this process is to become another program; "" is the
// program that was started, from no image.
type Become struct{ Program string }

// Error implements error.
func (b *Become) Error() string { return fmt.Sprintf("this process is to become %q", b.Program) }

// TrialResult is what a trial showed.
type TrialResult struct {
	Passed  bool
	Again   bool  // it was interrupted from outside: as if it had never begun
	Err     error // why it did not pass
	LogTail string
	Took    time.Duration
}

// EndTrial writes down what a trial showed.
func EndTrial(j *journal.Journal, h *HandOver, t TrialResult) error {
	return j.Update(func(tx *journal.Tx) error {
		changes, err := tx.Changes()
		if err != nil {
			return err
		}
		for _, r := range changes {
			if r.Agent != h.Agent || !r.To.IsSelf() {
				continue
			}
			r.Took(taskv1.Step_STEP_PROVE, t.Took)
			switch {
			case t.Again:
				r.Step = taskv1.Step_STEP_REHEARSE // nothing was touched, so the document may bring it back
			case t.Passed:
				r.TrialPassed = true
			default:
				r.Failure = Failure(taskv1.Step_STEP_PROVE, t.Err)
				r.Failure.LogTail = t.LogTail
			}
			return tx.PutChange(r)
		}
		return fmt.Errorf("no change of %s is open", h.Agent)
	})
}

// Trial ends the engine for the trial. The change stays open.
type Trial struct {
	Specs agent.Specs
	Leave func(error) // called before the change is left
}

// Do implements Step. It never returns nil.
func (s Trial) Do(_ context.Context, r *Run) error {
	v := agent.Coming(r.Record)
	if r.From == nil && !r.DirExisted {
		r.DirMade = true // so that a trial that was stopped leaves nothing
		if err := r.Save(); err != nil {
			return err
		}
	}
	s.Leave(&HandOver{
		Agent: r.Agent, Version: r.To.GetVersion(), Program: s.Specs.Program(v),
		Timeout: v.ReadyWithin(), Soak: v.Soak(),
	})
	return ErrStopped
}

// SelfLinks moves the two links to the executor's program: the one that every agent has, and
// the one that a start reads.
type SelfLinks struct {
	Links
	Self Self // nil when the executor is part of another program
}

func (l SelfLinks) to(r *Run, v agent.Version) error {
	if err := l.image(r, v.Image); err != nil {
		return err
	}
	r.Point("linked")
	target := l.Root.ProgramLink(l.Configs.Specs.Program(v))
	if was, err := os.Readlink(l.Root.Program()); err == nil && was == target && r.Failure != nil {
		return nil // a rollback that finds it in place: its starts count on
	}
	if err := layout.Link(target, l.Root.Program()); err != nil {
		return err
	}
	r.Point("program linked")
	return l.Self.Forget()
}

// Unlink makes the program that was started, from no image, the executor from the next start on.
func (l SelfLinks) Unlink(r *Run) error {
	err := os.Remove(l.Root.Program())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the link to the program: %w", err)
	}
	if err := layout.SyncDir(l.Root.Home()); err != nil {
		return err
	}
	r.Point("program unlinked")
	if l.Self == nil {
		return nil
	}
	return l.Self.Forget()
}

// LinkSelf makes the new program the one that starts from now on.
type LinkSelf struct{ SelfLinks }

// Do implements Step.
func (s LinkSelf) Do(_ context.Context, r *Run) error { return s.to(r, agent.Coming(r.Record)) }

// BecomeSelf lets this process become the committed program. A program that runs after a
// recovery in spite of that was not able to start.
type BecomeSelf struct {
	Self  Self
	Specs agent.Specs
	Leave func(error)
}

// Do implements Step.
func (s BecomeSelf) Do(_ context.Context, r *Run) error {
	program := s.Specs.Program(agent.Coming(r.Record))
	if s.Self != nil && s.Self.Runs(program) {
		return nil
	}
	if r.justCommitted {
		s.Leave(&Become{program}) // which recovers the change
		return ErrStopped
	}
	r.Committed = false
	return refuse(code.NotStarted, "%s", WhyNotSelf(s.Self))
}

// WhyNotSelf returns why this process is not the program of the inventory.
func WhyNotSelf(s Self) string {
	if s == nil {
		return "this executor is part of another program"
	}
	if why := s.Why(); why != "" {
		return why
	}
	return "another program runs"
}

// RollbackSelf makes the old program the one that starts. It runs already, or follows when the
// change has ended.
type RollbackSelf struct {
	SelfLinks
	Restore RestoreOld
}

// Do implements Step.
func (s RollbackSelf) Do(_ context.Context, r *Run) error {
	if r.From == nil {
		if err := errors.Join(s.Unlink(r), s.Restore.removeFirst(r)); err != nil {
			return err
		}
	} else if err := s.to(r, agent.Installed(r.From)); err != nil {
		return err
	}
	r.Point("linked back")
	return inJournal(r.Journal.Update(func(tx *journal.Tx) error {
		if r.From == nil {
			return tx.DropInstance(r.Agent)
		}
		return errors.Join(tx.PutInstance(r.From), // a commit had replaced it
			tx.Replace(r.Agent, change.Manifest{}, r.From.Image, time.Now()))
	}))
}
