package steps

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
	"github.com/garrison-fleet/garrison/services/executor/internal/agent"
	"github.com/garrison-fleet/garrison/services/executor/internal/healthcheck"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

const (
	// signalAfter is how long a process has at least after its start before it gets a signal,
	// for which it may not be ready yet.
	signalAfter = 500 * time.Millisecond
	// signalSoak is how long a process is watched at least after a signal: on a machine under
	// load it sees the signal late, and its end is noticed late when an earlier executor started it.
	signalSoak = 2 * time.Second
)

// Starter starts the processes of versions for a switch and for a rollback.
type Starter struct {
	Processes *agent.Processes
	Compare   Compare
}

// StartNew starts the new version, or lets the process of the same image see what differs.
type StartNew struct{ Starter }

// Do implements Step.
func (s StartNew) Do(ctx context.Context, r *Run) error {
	if !r.To.IsDaemon() {
		return nil
	}
	v := agent.Coming(r.Record)
	if r.Resumed && !s.Compare.Runs(r.Record) {
		// It may have said READY=1 while nothing listened.
		if err := s.Processes.Stop(v); err != nil {
			return err
		}
	}
	u, err := s.Processes.Unit(v)
	if err != nil {
		return err
	}
	r.unit = u
	if s.Compare.Runs(r.Record) {
		if s.Compare.Reload(r.Record) == ReloadSignal {
			return s.signal(ctx, r, v)
		}
		return nil
	}
	return s.start(r, v)
}

func (s StartNew) start(r *Run, v agent.Version) error {
	if err := s.openNotify(r, v); err != nil {
		return err
	}
	u, err := s.Processes.Prepare(v, r.Notify)
	if err != nil {
		return err
	}
	adopted, err := u.Start()
	if adopted && err == nil && r.notify != nil {
		err = takeReady(r, u)
	}
	if errors.Is(err, syscall.ENOSPC) || fault.RefusalOf(err) != nil {
		return err // not the version's fault, or refused already
	} else if err != nil {
		return refuse(code.NotStarted, "%v", err)
	}
	r.Point("new started")
	return nil
}

// takeReady handles a process that ran already and that the inventory did not know. It says
// READY=1 no more: it counts as ready if that is recorded, and is restarted otherwise.
func takeReady(r *Run, u supervise.Unit) error {
	if u.Ready() != nil {
		r.closeNotify()
		return r.Save()
	}
	if err := u.Stop(); err != nil {
		return err
	}
	_, err := u.Start()
	return err
}

// openNotify listens for READY=1 when that is the version's probe. The journal knows of the
// socket, so that a crash leaves none.
func (s Starter) openNotify(r *Run, v agent.Version) error {
	if !v.Image.GetRun().GetReady().GetNotify() || s.Processes.Notifies() {
		return nil
	}
	r.closeNotify()
	owner, err := supervise.UserID(v.Image.GetRun().GetSandbox().GetUser())
	if err != nil {
		return err
	}
	n, err := healthcheck.ListenNotify(s.Processes.NotifyPath(v), owner)
	if err != nil {
		return err
	}
	r.notify, r.Notify = n, n.Path()
	return r.Save()
}

// signal lets a process that goes on read its new configuration. It is not restarted
// meanwhile: its end is the failure of the change.
func (s Starter) signal(ctx context.Context, r *Run, v agent.Version) error {
	u, err := s.Processes.Unit(v)
	if err != nil {
		return err
	}
	u.Leave()
	if err := wakeup.Pause(ctx, signalAfter-time.Since(u.Status().StartedAt)); err != nil {
		return err
	}
	r.signalled = u.Status().Pid
	if err := u.Signal(syscall.SIGHUP); err != nil {
		return err
	}
	r.Point("signalled")
	return nil
}

// restore starts the old version, or lets it read its own configuration again.
func (s Starter) restore(ctx context.Context, r *Run, v agent.Version) (supervise.Unit, error) {
	u, err := s.Processes.Unit(v)
	if err != nil {
		return nil, err
	}
	if u.Status().Pid == 0 {
		err = s.startOld(r, v, u)
	} else if s.Compare.Signals(r.Record) {
		err = s.signal(ctx, r, v)
	}
	return u, err
}

func (s Starter) startOld(r *Run, v agent.Version, u supervise.Unit) error {
	u.Leave() // nothing else starts it meanwhile
	if r.Resumed {
		// An interrupted rollback may have started it, and it said READY=1 while nothing listened.
		if err := u.Stop(); err != nil {
			return err
		}
	}
	if err := s.openNotify(r, v); err != nil {
		return err
	}
	if _, err := s.Processes.Prepare(v, r.Notify); err != nil {
		return err
	}
	if is, ok := u.(supervise.Restorer); ok {
		is.Restore()
	}
	adopted, err := u.Start()
	if adopted {
		r.closeNotify() // it was ready before, and will not say so again
	}
	return err
}
