// Package steps holds the steps of a change, one small type each. A step does its work on the
// server and returns an error when it failed; package change decides what follows.
//
// Guarantees:
//
//  1. Every step may be done again from its start, after a crash at any point of it.
//  2. A step before the switch touches nothing of the agent but what Dropped and Restored sweep.
//  3. Rollback needs neither the network nor the new version.
//  4. A step keeps in the record, and saves, whatever recovery or the rollback needs to know.
package steps

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/visible"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/healthcheck"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/space"
	"github.com/garrison-fleet/garrison/services/executor/internal/store"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// Step is one step of a change.
type Step interface {
	// Do does the step, also again after a crash.
	Do(ctx context.Context, r *Run) error
}

// All is several steps in a row; the first error ends it.
type All []Step

// Do implements Step.
func (a All) Do(ctx context.Context, r *Run) error {
	for _, s := range a {
		if err := s.Do(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// Func is a step that needs nothing but the run.
type Func func(ctx context.Context, r *Run) error

// Do implements Step.
func (f Func) Do(ctx context.Context, r *Run) error { return f(ctx, r) }

// ErrStopped reports that the executor ends; the change stays open in the journal.
var ErrStopped = errors.New("the executor stops")

// ErrJournal reports that the journal cannot be written; the change stays open.
var ErrJournal = store.ErrJournal

// Run is a change that is under way: its record, and what its steps hand to each other.
type Run struct {
	*change.Record
	Log      zerolog.Logger
	Resumed  bool                     // a crash interrupted it
	Point    func(name string)        // for tests: called between the steps and within them
	Progress func(done, total uint64) // must not block
	Journal  *journal.Journal

	notify    *healthcheck.Notify // open while the new version is not ready
	space     *space.Reservation  // disk space for what is still to be written
	unit      supervise.Unit      // the new version's process; nil when nothing runs
	signalled int                 // the process that got a signal about its configuration; 0 for none
	freeBlob  func()              // lets other changes bring the same blob
	pass      io.Closer           // keeps critical sections from beginning; nil before the change may touch anything
	prepared  bool                // a whole copy of the image is on the disk

	justCommitted bool // by this process

	ahead    bool   // it only fetches an image ahead
	giveWay  func() // ends that, for a change that needs the room
	endAhead func() // notes that it no longer holds room
}

// Save writes the record as it is.
func (r *Run) Save() error {
	err := r.Journal.Update(func(tx *journal.Tx) error {
		if r.Step == taskv1.Step_STEP_SWITCH { // a journal that does not know of it is an older one
			return errors.Join(tx.Advance(), tx.PutChange(r.Record))
		}
		return tx.PutChange(r.Record)
	})
	return inJournal(err)
}

// inJournal marks an error of the journal.
func inJournal(err error) error {
	if err != nil {
		return fmt.Errorf("%w: %w", ErrJournal, err)
	}
	return nil
}

// Release releases what the change holds beside its record: space, blob, notify socket, and the pass that keeps
// critical sections from beginning.
func (r *Run) Release() {
	if r.pass != nil {
		_ = r.pass.Close()
	}
	r.closeNotify()
	r.releaseSpace()
	if r.endAhead != nil {
		r.endAhead()
	}
}

func (r *Run) releaseSpace() {
	if r.freeBlob != nil {
		r.freeBlob()
	}
	if err := r.space.Release(); err != nil {
		r.Log.Warn().Err(err).Msg("reserved space not given back")
	}
}

// withRoom does a write; on a full disk the reserved space makes room for it.
func (r *Run) withRoom(write func() error) error {
	err := write()
	if errors.Is(err, syscall.ENOSPC) {
		r.releaseSpace()
		err = write()
	}
	return err
}

func (r *Run) closeNotify() {
	if r.notify != nil {
		_ = r.notify.Close()
		r.notify = nil
	} else if r.Notify != "" {
		_ = healthcheck.SweepNotify(r.Notify)
	}
	r.Notify = ""
}

// refuse returns a refusal of the change.
func refuse(why, format string, args ...any) error {
	return fault.Refusef(fault.Invalid, why, format, args...)
}

// Failure returns where and why a change failed, with a stable code.
func Failure(step taskv1.Step, err error) *change.Failure {
	f := &change.Failure{Step: step, Code: code.Internal, Reason: change.OneLine(err)}
	switch r := fault.RefusalOf(err); {
	case r != nil:
		f.Code, f.Reason = r.GetCode(), visible.Line(r.GetMessage())
	case layout.Full(err):
		f.Code, f.Reason = code.NoSpace, noSpaceAt(err)
	case errors.Is(err, syscall.EROFS):
		f.Code = code.RootReadOnly
	case errors.Is(err, syscall.EXDEV):
		f.Code = code.OtherFileSystem
	case layout.Faulty(err):
		f.Code = code.RootFaulty
	case errors.Is(err, context.DeadlineExceeded):
		f.Code = code.TimedOut
	}
	return f
}

// noSpaceAt returns where a disk was full: the file, or the directory of one with a temporary name.
func noSpaceAt(err error) string {
	at, ok := errors.AsType[*fs.PathError](err)
	if !ok {
		return change.OneLine(err)
	}
	path := at.Path
	if strings.HasPrefix(filepath.Base(path), layout.TemporaryPrefix) {
		path = filepath.Dir(path)
	}
	return visible.Line(at.Err.Error() + " at " + path)
}

var errServerDead = refuse(code.ServerDead, "the server is dead")

// ServerLife ends when a document says that the server is dead.
type ServerLife struct {
	ctx context.Context
	end context.CancelFunc
}

// NewServerLife returns the life of a server that is alive.
func NewServerLife() *ServerLife {
	l := &ServerLife{}
	l.ctx, l.end = context.WithCancel(context.Background())
	return l
}

// End ends the life: changes that only bring something are given up.
func (l *ServerLife) End() { l.end() }

// Over reports whether the server is dead.
func (l *ServerLife) Over() bool { return l.ctx.Err() != nil }

// While returns a context that is done as well when the server is dead, unless the change goes
// on then: a removal, and an executor that passed its trial.
func (l *ServerLife) While(ctx context.Context, r *change.Record) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if r.Removes() || r.TrialPassed {
		return ctx, func() { cancel(nil) }
	}
	if l.ctx.Err() != nil {
		cancel(errServerDead)
	}
	stop := context.AfterFunc(l.ctx, func() { cancel(errServerDead) })
	return ctx, func() { stop(); cancel(nil) }
}

// Ended reports whether a context of While is done because the server is dead.
func Ended(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errServerDead) }

// Cause returns the server's death where that is behind an error, and otherwise the error.
// ErrJournal and ErrStopped are other matters.
func Cause(ctx context.Context, err error) error {
	if err != nil && Ended(ctx) && !errors.Is(err, ErrJournal) && !errors.Is(err, ErrStopped) {
		return errServerDead
	}
	return err
}
