package supervise

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
)

// Taken is a unit whose process was adopted: another program started it, so it carries no token and no
// record. While it lives it is the unit's process; once it ended, the unit below takes its place.
type Taken struct {
	below    Unit
	name     string
	is       change.Adoption
	within   time.Duration // for the end after SIGTERM
	notifies bool          // it is ready when it says READY=1
	changed  func()
	keeper   Keeper
	exited   chan struct{}
	watching sync.Once
	forgot   chan struct{} // closed by Forget, which also closes exited
	forget   sync.Once
}

// Take returns a unit that has an adopted process. below runs the same slot once that process ended.
func Take(below Unit, s Spec, is change.Adoption, changed func()) *Taken {
	return &Taken{
		below: below, name: s.Name, is: is, within: s.StopWithin(), notifies: s.Notify, changed: changed,
		exited: make(chan struct{}), forgot: make(chan struct{}),
	}
}

// Lives reports whether an adopted process still runs: the process of that id, start and boot.
func Lives(is *change.Adoption) bool {
	if is == nil || is.Pid <= 1 || is.Boot != proctree.BootID() {
		return false
	}
	start, ok := proctree.StartTime(is.Pid)
	return ok && start == is.Start
}

// alive reports whether the adopted process runs, and begins to watch it.
func (t *Taken) alive() bool {
	t.watching.Do(func() {
		if !Lives(&t.is) {
			close(t.exited)
			return
		}
		go func() {
			for Lives(&t.is) && Pause(t.forgot, adoptEvery) {
			}
			close(t.exited)
		}()
	})
	select {
	case <-t.exited:
		return false
	default:
		return Lives(&t.is)
	}
}

// IsGuest reports whether the adopted process is still the unit's.
func (t *Taken) IsGuest() bool { return t.alive() }

// Start returns the adopted process, or starts the image's program where that ended.
func (t *Taken) Start() (adopted bool, err error) {
	if t.alive() {
		return true, nil
	}
	if !t.is.Same {
		return false, fault.Refusef(fault.Invalid, code.NotRestartable,
			"the adopted process %d ended, and its program is not the one of %s", t.is.Pid, t.name)
	}
	return t.below.Start()
}

// Adopt returns whether a process runs, and starts none.
func (t *Taken) Adopt() (adopted bool, err error) {
	if t.alive() {
		return true, nil
	}
	return t.below.Adopt()
}

// Keep starts the image's program when the adopted process has ended, and keeps that. What is not the image's
// program is watched only.
func (t *Taken) Keep() {
	t.keeper.Keep(func(stop <-chan struct{}) {
		if t.alive() {
			select {
			case <-stop:
				return
			case <-t.exited:
			}
			t.changed()
		}
		if t.is.Same && Pause(stop, DefaultPolicy.First) {
			_, _ = t.below.Start() // below is kept, so a failed start is tried again
			t.below.Keep()
			t.changed()
		}
	})
}

// Leave stops keeping the process, and does not end it.
func (t *Taken) Leave() {
	t.keeper.Leave()
	t.below.Leave()
}

// Forget ends the watching of the process, which runs on.
func (t *Taken) Forget() { t.forget.Do(func() { close(t.forgot) }) }

// Stop ends the adopted process, and what the unit below runs. Its group is not signalled: it may be that of a
// person's shell.
func (t *Taken) Stop() error {
	t.Leave()
	if t.alive() {
		children := proctree.Descendants(t.is.Pid)
		if err := t.end(); err != nil {
			return err
		}
		for _, c := range children {
			if start, ok := proctree.StartTime(c.Pid); ok && start == c.Start {
				_ = unix.Kill(c.Pid, unix.SIGKILL)
			}
		}
	}
	return t.below.Stop()
}

// end ends the adopted process: SIGTERM, and SIGKILL after the time-out.
func (t *Taken) end() error {
	for _, how := range []struct {
		signal unix.Signal
		within time.Duration
	}{{unix.SIGTERM, t.within}, {unix.SIGKILL, killWithin}} {
		if err := t.signal(how.signal); err != nil {
			return err
		}
		select {
		case <-t.exited:
			return nil
		case <-time.After(how.within):
		}
	}
	return fmt.Errorf("adopted process %d of %s did not end within %s after SIGKILL", t.is.Pid, t.name, killWithin)
}

// signal signals the adopted process and no other one that got its id.
func (t *Taken) signal(s unix.Signal) error {
	fd, err := unix.PidfdOpen(t.is.Pid, 0)
	if err == nil {
		defer func() { _ = unix.Close(fd) }()
	}
	if !Lives(&t.is) { // checked while the id is held
		return nil
	}
	if err == nil {
		err = unix.PidfdSendSignal(fd, s, nil, 0)
	} else if !errors.Is(err, unix.ESRCH) { // an old kernel, or a container that forbids it
		err = unix.Kill(t.is.Pid, s)
	}
	if err == nil || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return fmt.Errorf("send %v to adopted process %d of %s: %w", s, t.is.Pid, t.name, err)
}

// Fail leaves the adopted process alone.
func (t *Taken) Fail(why string, since time.Time) {
	if !t.alive() {
		t.below.Fail(why, since)
	}
}

// Signal sends a signal to the process itself, if one runs.
func (t *Taken) Signal(s syscall.Signal) error {
	if t.alive() {
		return t.signal(s)
	}
	return t.below.Signal(s)
}

// Exited returns a channel that is closed when the current process has ended.
func (t *Taken) Exited() <-chan struct{} {
	if t.alive() {
		return t.exited
	}
	return t.below.Exited()
}

// Ready returns a closed channel for an adopted process that is to notify: it did before, to another program. Of one
// that answers a probe it returns nil, as for any other process.
func (t *Taken) Ready() <-chan struct{} {
	if t.alive() {
		if t.notifies {
			return Closed
		}
		return nil
	}
	return t.below.Ready()
}

// SetReady records that the current process was ready.
func (t *Taken) SetReady() error {
	if t.alive() {
		return nil
	}
	return t.below.SetReady()
}

// Status returns the current status.
func (t *Taken) Status() Status {
	if t.alive() {
		return Status{Pid: t.is.Pid, StartedAt: t.is.StartedAt}
	}
	s := t.below.Status()
	if s.Pid == 0 && s.LastEnd == "" {
		s.StartedAt, s.LastEnd = t.is.StartedAt, "the adopted process ended"
		if !t.is.Same {
			s.LastEnd += ", and Garrison does not have its program"
		}
	}
	return s
}

// SetEnv replaces the environment of the next start.
func (t *Taken) SetEnv(env []string) { t.below.SetEnv(slices.Clone(env)) }
